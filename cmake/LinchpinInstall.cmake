# Install and export. One export set per component, so that asking for `core` never looks for Bullet.
include(CMakePackageConfigHelpers)

get_property(components GLOBAL PROPERTY LINCHPIN_COMPONENTS)
set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/linchpin)

foreach(component IN LISTS components)
  install(EXPORT linchpin-${component} NAMESPACE linchpin:: FILE linchpin-${component}-targets.cmake
    DESTINATION ${package_dir} COMPONENT ${component})
endforeach()

set(mujoco_version "")  # the installed package demands the version with which the adapter was built
if(TARGET LINCHPIN_MUJOCO::mujoco)
  get_target_property(mujoco_version LINCHPIN_MUJOCO::mujoco LINCHPIN_MUJOCO_VERSION)
endif()
configure_package_config_file(cmake/linchpinConfig.cmake.in ${PROJECT_BINARY_DIR}/linchpinConfig.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/linchpinConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/linchpinConfig.cmake ${PROJECT_BINARY_DIR}/linchpinConfigVersion.cmake
  cmake/FindLinchpinMujoco.cmake
  DESTINATION ${package_dir} COMPONENT core)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT core OPTIONAL)
