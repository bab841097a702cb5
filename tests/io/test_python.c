/* What we write is read by Python's safetensors and PyTorch, and what they write of it comes back bit for
 * bit. Skipped without them; PYTHON names the interpreter (python3). */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/checkpoint.h"
#include "optim/optim.h"

#define PATH "test_python.safetensors"
#define COPY "test_python.copy.safetensors"

/* Every byte of a small file, as the format's description has it. */
Test(python, exact_bytes) {
  th_params *params = th_params_new(NULL);
  th_tensor *x = th_params_add(params, "xyz", TH_F32, TH_SHAPE(1, 2), NULL);
  th_tensor_write(x, (const double[]){1, -2});
  cr_assert_eq(th_params_save(params, PATH, NULL), TH_OK);
  static const char want[] =
      "\x40\0\0\0\0\0\0\0"
      "{\"xyz\":{\"dtype\":\"F32\",\"shape\":[1,2],\"data_offsets\":[0,8]}}      "
      "\0\0\x80\x3f\0\0\0\xc0";
  char got[sizeof want + 1];
  FILE *file = fopen(PATH, "rb");
  cr_assert_not_null(file);
  cr_assert_eq(fread(got, 1, sizeof got, file), sizeof want - 1);
  cr_assert_eq(memcmp(got, want, sizeof want - 1), 0);
  fclose(file);
  th_params_free(params);
  unlink(PATH);
}

/* The exit status of python.py, or -1. */
static int run_script(void) {
  const char *python = getenv("PYTHON") != NULL ? getenv("PYTHON") : "python3";
  pid_t child = fork();
  if (child == 0) {
    execlp(python, python, TEST_FOLDER "/io/python.py", PATH, COPY, (char *)NULL);
    _exit(77);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status)
                                                                               : -1;
}

/* A model of which every parameter has been stepped once. */
static th_optim *stepped(th_model *model) {
  th_params *params = th_model_params(model);
  th_optim *optim = th_adamw_new(params, NULL, NULL);
  th_tape *tape = th_tape_new();
  th_tensor *loss = NULL;
  for (ptrdiff_t i = 0; i < th_params_count(params); i++) {
    th_tensor *x = th_params_at(params, i);
    th_tensor *square = th_sum(tape, th_mul(tape, x, x), TH_ALL_AXES);
    loss = loss == NULL ? square : th_add(tape, loss, square);
  }
  cr_assert_eq(th_backward(tape, loss), TH_OK);
  cr_assert_eq(th_optim_step(optim, NULL), TH_OK);
  th_tape_free(tape);
  return optim;
}

static void same(const th_tensor *a, const th_tensor *b) {
  cr_assert_eq(memcmp(th_tensor_data(a), th_tensor_data(b),
                      (size_t)th_tensor_count(a) * th_dtype_size(th_tensor_dtype(a))),
               0, "%s", th_tensor_name(a));
}

Test(python, reads_what_we_write_and_the_other_way_round) {
  th_gpt config = {.layers = 2, .heads = 2, .width = 8, .context = 6, .vocab = 5};
  th_model *model = th_gpt_new(&config, 1, NULL);
  th_optim *optim = stepped(model);
  json_t *metadata = json_pack("{s:s}", "note", "\xc3\xbc");
  cr_assert_eq(th__checkpoint_save(PATH, model, optim, metadata, NULL), TH_OK);
  json_decref(metadata);
  int status = run_script();
  if (status == 77) unlink(PATH);
  if (status == 77) cr_skip_test("no Python with safetensors and PyTorch (PYTHON=...)");
  cr_assert_eq(status, 0, "python.py: exit status %d", status);

  th_error error = {0};
  th__checkpoint *copy = th__checkpoint_open(COPY, &error);
  cr_assert_not_null(copy, "%s", error.message);
  th_model *read = th__checkpoint_model(copy, &error);
  cr_assert_not_null(read, "%s", error.message);
  th_optim *moments = th_adamw_new(th_model_params(read), NULL, NULL);
  cr_assert_eq(th__checkpoint_optim(copy, moments, &error), TH_OK, "%s", error.message);
  for (ptrdiff_t i = 0; i < optim->slot_count; i++) {
    same(th_params_at(th_model_params(model), i), th_params_at(th_model_params(read), i));
    same(optim->slots[i].m, moments->slots[i].m);
    same(optim->slots[i].v, moments->slots[i].v);
  }
  th__checkpoint_close(copy);
  th_optim_free(optim);
  th_optim_free(moments);
  th_model_free(model);
  th_model_free(read);
  unlink(PATH);
  unlink(COPY);
}
