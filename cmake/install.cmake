# `cmake --install`: header, libraries, command; the CMake and pkg-config packages are below.

install(FILES src/tapehead.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tapehead_shared tapehead_static EXPORT tapehead-targets)
if(TARGET tapehead_command)
  install(TARGETS tapehead_command)
endif()
