# The libraries Tapehead stands on. Targets made here: openblas, jansson, random123.

find_package(OpenMP REQUIRED COMPONENTS C)
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)

set(get_it "script/bootstrap installs what is missing.")

pkg_check_modules(JANSSON IMPORTED_TARGET jansson)
if(NOT JANSSON_FOUND)
  message(FATAL_ERROR "jansson not found (Debian: libjansson-dev). ${get_it}")
endif()
add_library(jansson INTERFACE)
target_link_libraries(jansson INTERFACE PkgConfig::JANSSON)

find_path(RANDOM123_INCLUDE_DIR Random123/philox.h)
if(NOT RANDOM123_INCLUDE_DIR)
  message(FATAL_ERROR "Random123 not found (Debian: librandom123-dev). ${get_it}")
endif()
add_library(random123 INTERFACE)
target_include_directories(random123 SYSTEM INTERFACE ${RANDOM123_INCLUDE_DIR})

# OpenBLAS must be the OpenMP build, so that there is one pool of threads. Where several builds are installed the
# distribution's alternatives may choose another one, so this build's own pkg-config file is read first; its folder is
# also the run path of what we link, because all builds share one library name.
set(openblas_folders
  /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openblas-openmp/pkgconfig
  /usr/lib/openblas-openmp/pkgconfig)
set(user_pkg_config_path "$ENV{PKG_CONFIG_PATH}")
list(JOIN openblas_folders ":" openblas_path)
set(ENV{PKG_CONFIG_PATH} "${user_pkg_config_path}:${openblas_path}")
pkg_check_modules(OPENBLAS IMPORTED_TARGET openblas)
pkg_get_variable(openblas_settings openblas openblas_config)
set(ENV{PKG_CONFIG_PATH} "${user_pkg_config_path}")
if(NOT OPENBLAS_FOUND)
  message(FATAL_ERROR "OpenBLAS not found (Debian: libopenblas-openmp-dev). ${get_it}")
endif()
if(NOT openblas_settings MATCHES "USE_OPENMP=1")
  message(FATAL_ERROR "OpenBLAS in ${OPENBLAS_LIBDIR} is not the OpenMP build (Debian: libopenblas-openmp-dev). "
                      "Set PKG_CONFIG_PATH to the folder of its openblas.pc.")
endif()
list(GET OPENBLAS_LINK_LIBRARIES 0 OPENBLAS_LIBRARY)
cmake_path(GET OPENBLAS_LIBRARY PARENT_PATH OPENBLAS_LIBRARY_DIR)
add_library(openblas INTERFACE)
target_include_directories(openblas SYSTEM INTERFACE ${OPENBLAS_INCLUDE_DIRS})
target_link_libraries(openblas INTERFACE ${OPENBLAS_LIBRARY})
