# Finds Bullet in both precisions, by pkg-config only. CMake's own FindBullet always answers single precision, and the
# config files some distributions ship carry relative paths; the two .pc files are right and name the precision.
#
# Defines, where found (GLOBAL, so that tests and tools see them too):
#   PkgConfig::LINCHPIN_BULLET_single, PkgConfig::LINCHPIN_BULLET_double    the engine
#   linchpin_bullet_extras_single, linchpin_bullet_extras_double            the reader of .bullet files
# linchpinConfig.cmake.in repeats the first two under the same names, because exported targets refer to them.

function(linchpin_find_bullet precision module suffix)
  set(prefix LINCHPIN_BULLET_${precision})
  pkg_check_modules(${prefix} QUIET IMPORTED_TARGET GLOBAL ${module})
  if(NOT ${prefix}_FOUND)
    if(LINCHPIN_ADAPTER_BULLET MATCHES "^(ON|double|single)$")
      message(FATAL_ERROR "linchpin: LINCHPIN_ADAPTER_BULLET is ${LINCHPIN_ADAPTER_BULLET}, but pkg-config knows no module '${module}' "
        "(Bullet Physics, ${precision} precision; Debian: libbullet-dev)")
    endif()
    message(STATUS "linchpin: no Bullet in ${precision} precision (pkg-config module '${module}'): its adapter is left out")
    return()
  endif()

  # The extras have no .pc file. Their headers lie in Bullet's own include directory, their libraries carry the suffix.
  find_library(LINCHPIN_BULLET_IMPORTER_${precision} BulletWorldImporter${suffix} HINTS ${${prefix}_LIBRARY_DIRS})
  find_library(LINCHPIN_BULLET_LOADER_${precision} BulletFileLoader${suffix} HINTS ${${prefix}_LIBRARY_DIRS})
  mark_as_advanced(LINCHPIN_BULLET_IMPORTER_${precision} LINCHPIN_BULLET_LOADER_${precision})
  if(LINCHPIN_BULLET_IMPORTER_${precision} AND LINCHPIN_BULLET_LOADER_${precision})
    add_library(linchpin_bullet_extras_${precision} INTERFACE IMPORTED GLOBAL)
    target_link_libraries(linchpin_bullet_extras_${precision} INTERFACE
      ${LINCHPIN_BULLET_IMPORTER_${precision}} ${LINCHPIN_BULLET_LOADER_${precision}} PkgConfig::${prefix})
  endif()
endfunction()

if(NOT LINCHPIN_ADAPTER_BULLET MATCHES "^(AUTO|ON|double|single|OFF)$")
  message(FATAL_ERROR "linchpin: LINCHPIN_ADAPTER_BULLET is '${LINCHPIN_ADAPTER_BULLET}', expected AUTO, ON, double, single or OFF")
endif()
if(NOT LINCHPIN_ADAPTER_BULLET STREQUAL "OFF")
  find_package(PkgConfig QUIET)
  if(PkgConfig_FOUND)
    if(NOT LINCHPIN_ADAPTER_BULLET STREQUAL "double")
      linchpin_find_bullet(single bullet "")
    endif()
    if(NOT LINCHPIN_ADAPTER_BULLET STREQUAL "single")
      linchpin_find_bullet(double bullet-float64 "-float64")
    endif()
  elseif(LINCHPIN_ADAPTER_BULLET MATCHES "^(ON|double|single)$")
    message(FATAL_ERROR "linchpin: LINCHPIN_ADAPTER_BULLET is ${LINCHPIN_ADAPTER_BULLET}, which needs pkg-config")
  else()
    message(STATUS "linchpin: no pkg-config: the Bullet adapter is left out")
  endif()
endif()
