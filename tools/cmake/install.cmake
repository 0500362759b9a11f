# What `cmake --install` puts where, and the Debian package that CPack makes of the program (tools/package.sh).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # a package of the program needs no tests

# What the program says of itself: the JSON Schema of configs for editors (.vscode/settings.json points to it), the
# manual page, and what completes its commands in shells.
set(texts ${PROJECT_BINARY_DIR}/quern.schema.json ${PROJECT_BINARY_DIR}/quern.1 ${PROJECT_BINARY_DIR}/quern.bash
  ${PROJECT_BINARY_DIR}/_quern ${PROJECT_BINARY_DIR}/quern.fish)
add_custom_command(TARGET quern POST_BUILD VERBATIM COMMAND sh -c
  "\"$1\" config schema > \"$2\" && \"$1\" manual > \"$3\" && \"$1\" completions bash > \"$4\" && \
   \"$1\" completions zsh > \"$5\" && \"$1\" completions fish > \"$6\"" texts $<TARGET_FILE:quern> ${texts})

set(share ${CMAKE_INSTALL_DATADIR})
install(TARGETS quern COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/quern.schema.json DESTINATION ${share}/quern COMPONENT program)
install(DIRECTORY configs data DESTINATION ${share}/quern COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/quern.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/quern.bash DESTINATION ${share}/bash-completion/completions RENAME quern
  COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/_quern DESTINATION ${share}/zsh/vendor-completions COMPONENT program)
install(FILES ${PROJECT_BINARY_DIR}/quern.fish DESTINATION ${share}/fish/vendor_completions.d COMPONENT program)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright COMPONENT program)

# The library: all layers in one archive, quern::quern of find_package(quern). tools/example uses it.
add_library(quern_library STATIC)
foreach(layer ${QUERN_LAYERS})
  target_sources(quern_library PRIVATE $<TARGET_OBJECTS:quern_${layer}>)
endforeach()
foreach(level ${QUERN_LEVELS})
  target_sources(quern_library PRIVATE $<TARGET_OBJECTS:quern_level_${level}>)
endforeach()
add_dependencies(quern quern_library)  # so that `cmake --install` works once the program is built
set_target_properties(quern_library PROPERTIES OUTPUT_NAME quern EXPORT_NAME quern LINKER_LANGUAGE CXX)
target_include_directories(quern_library INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(quern_library INTERFACE cxx_std_20)
target_link_libraries(quern_library INTERFACE OpenMP::OpenMP_CXX nlohmann_json::nlohmann_json PNG::PNG dnnl)
install(TARGETS quern_library EXPORT quern ARCHIVE COMPONENT development)
install(DIRECTORY include/quern DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/quern)
install(EXPORT quern NAMESPACE quern:: FILE quern-targets.cmake DESTINATION ${package} COMPONENT development)
configure_package_config_file(tools/cmake/quern-config.cmake.in ${PROJECT_BINARY_DIR}/quern-config.cmake
  INSTALL_DESTINATION ${package})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/quern-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/quern-config.cmake ${PROJECT_BINARY_DIR}/quern-config-version.cmake
  DESTINATION ${package} COMPONENT development)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME quern)
set(CPACK_PACKAGE_CONTACT "The Quern authors <quern@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train Transformers from scratch on the CPU you own")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME quern)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
include(CPack)
