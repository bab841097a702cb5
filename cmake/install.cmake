# `cmake --install`: header, libraries, command, CMake package (tapehead::tapehead, tapehead::static), pkg-config file.

include(CMakePackageConfigHelpers)

install(FILES src/tapehead.h src/tapehead_criterion.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(TARGETS tapehead_shared tapehead_static EXPORT tapehead-targets)
if(TARGET tapehead_command)
  install(TARGETS tapehead_command)
endif()

set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/tapehead)
install(EXPORT tapehead-targets NAMESPACE tapehead:: DESTINATION ${package_folder})
configure_package_config_file(cmake/tapehead-config.cmake.in tapehead-config.cmake INSTALL_DESTINATION ${package_folder})
write_basic_package_version_file(tapehead-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tapehead-config.cmake ${PROJECT_BINARY_DIR}/tapehead-config-version.cmake
        DESTINATION ${package_folder})

# The folders in the pkg-config file are those of `cmake --install --prefix` too, not only of the configured prefix.
install(CODE "set(bindir \"${CMAKE_INSTALL_BINDIR}\")
set(libdir \"${CMAKE_INSTALL_LIBDIR}\")
set(includedir \"${CMAKE_INSTALL_INCLUDEDIR}\")
set(version \"${PROJECT_VERSION}\")
set(description \"${PROJECT_DESCRIPTION}\")
set(openblas_library \"${OPENBLAS_LIBRARY}\")
set(openblas_folder \"${OPENBLAS_LIBRARY_DIR}\")
set(openmp_flags \"${OpenMP_C_FLAGS}\")
configure_file(\"${PROJECT_SOURCE_DIR}/cmake/tapehead.pc.in\" \"${PROJECT_BINARY_DIR}/tapehead.pc\" @ONLY)")
install(FILES ${PROJECT_BINARY_DIR}/tapehead.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
