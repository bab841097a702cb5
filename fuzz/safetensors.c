/* libFuzzer target for safetensors files: any bytes are refused with a sentence, or are a file whose
 * tensors lie side by side in its data and can all be read. tests/io/fuzz.sh runs it, with the files that
 * Python wrote as its first inputs. */
#include "io/safetensors.h"

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void insist(int condition) {
  if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  th_error error = {0};
  th__safetensors *file = th__safetensors_parse("fuzz", data, size, &error);
  insist((file != NULL) == (error.status == TH_OK) && (file != NULL || error.message[0] != '\0'));
  if (file == NULL) return 0;
  uint64_t end = 0;
  for (ptrdiff_t i = 0; i < th__safetensors_count(file); i++) {
    const th__entry *entry = th__safetensors_at(file, i);
    insist(entry->begin == end && entry->end >= end && entry->end <= th__safetensors_bytes(file));
    insist(entry->end - end == (uint64_t)entry->count * th__stored_size(entry->stored));
    insist(th__safetensors_find(file, entry->name) == entry);
    end = entry->end;
    error = (th_error){0};
    th_tensor *tensor = th__safetensors_load(file, entry, &error);
    insist((tensor != NULL) == (error.status == TH_OK));
    if (tensor != NULL) insist(th_tensor_count(tensor) == entry->count);
    th_tensor_free(tensor);
  }
  insist(end == th__safetensors_bytes(file));
  th__safetensors_close(file);
  return 0;
}
