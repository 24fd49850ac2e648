# What cmake --install puts where: the libraries with their headers, the CMake package "rowlock" with a component for
# each of them, and a .pc file for each. Both find their way from where they are, so that the whole may be moved.
include(CMakePackageConfigHelpers)

set(ROWLOCK_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/rowlock)
set(ROWLOCK_PKG_CONFIG_DIR ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
define_property(GLOBAL PROPERTY ROWLOCK_COMPONENTS BRIEF_DOCS "The libraries that are installed")
define_property(GLOBAL PROPERTY ROWLOCK_COMPONENT_PACKAGES BRIEF_DOCS "CMake code: the packages that each needs")

# The .pc file of one library. With a static library one links what it needs, with or without pkg-config --static; with a
# shared one nothing but our own: no header of ours includes a driver's.
function(rowlock_pkg_config name output)
  cmake_parse_arguments(arg "" "" "REQUIRES;PKG_CONFIG;LIBS" ${ARGN})
  list(TRANSFORM arg_REQUIRES REPLACE "^rowlock::rowlock$" "rowlock")
  list(TRANSFORM arg_REQUIRES REPLACE "^rowlock::" "rowlock-")
  list(REMOVE_ITEM arg_REQUIRES Threads::Threads)
  list(TRANSFORM arg_REQUIRES APPEND " = ${PROJECT_VERSION}" REGEX "^rowlock")
  set(libs "-L\${libdir} -l${output}")
  if(name STREQUAL "core")
    list(APPEND arg_LIBS -pthread)
    set(about "Distributed locks from SQL databases: what all back ends share")
  elseif(name STREQUAL "rowlock")
    set(about "Distributed locks from SQL databases: every back end that was built, by URL")
  elseif(name STREQUAL "quorum")
    set(about "Distributed locks from SQL databases: locks that a majority of several databases grants")
  else()
    set(about "Distributed locks from SQL databases: the back end for ${name}")
  endif()
  if(NOT BUILD_SHARED_LIBS)
    list(APPEND arg_REQUIRES ${arg_PKG_CONFIG})
    list(JOIN arg_LIBS " " more)
    string(APPEND libs " ${more}")
  endif()
  list(JOIN arg_REQUIRES ", " requires)
  file(RELATIVE_PATH prefix /${ROWLOCK_PKG_CONFIG_DIR} /)
  string(REGEX REPLACE "/$" "" prefix "${prefix}")
  set(file ${CMAKE_CURRENT_BINARY_DIR}/${output}.pc)
  file(CONFIGURE OUTPUT ${file} @ONLY CONTENT [=[
prefix=${pcfiledir}/@prefix@
includedir=${prefix}/@CMAKE_INSTALL_INCLUDEDIR@
libdir=${prefix}/@CMAKE_INSTALL_LIBDIR@

Name: @output@
Description: @about@
Version: @PROJECT_VERSION@
Requires: @requires@
Cflags: -I${includedir}
Libs: @libs@
]=])
  install(FILES ${file} DESTINATION ${ROWLOCK_PKG_CONFIG_DIR} COMPONENT dev)
endfunction()

function(rowlock_install name output)
  cmake_parse_arguments(arg "" "" "REQUIRES;PACKAGES;PKG_CONFIG;LIBS" ${ARGN})
  # Each library in an export set of its own, so that finding one does not ask for the others' drivers.
  install(TARGETS rowlock_${name} EXPORT rowlock-${name}
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library NAMELINK_COMPONENT dev
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev
    FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
  install(EXPORT rowlock-${name} NAMESPACE rowlock:: DESTINATION ${ROWLOCK_CMAKE_DIR} COMPONENT dev)
  set_property(GLOBAL APPEND PROPERTY ROWLOCK_COMPONENTS ${name})
  set(requires ${arg_REQUIRES})
  list(REMOVE_ITEM requires Threads::Threads)
  list(TRANSFORM requires REPLACE "^rowlock::" "")
  set(packages "")
  if(NOT BUILD_SHARED_LIBS)
    set(packages ${arg_PACKAGES})
  endif()
  set_property(GLOBAL APPEND_STRING PROPERTY ROWLOCK_COMPONENT_PACKAGES
    "set(_rowlock_${name}_components ${requires})\nset(_rowlock_${name}_packages ${packages})\n")
  rowlock_pkg_config(${name} ${output} REQUIRES ${arg_REQUIRES} PKG_CONFIG ${arg_PKG_CONFIG} LIBS ${arg_LIBS})
endfunction()

# The package itself, after all its libraries.
function(rowlock_install_package)
  get_property(components GLOBAL PROPERTY ROWLOCK_COMPONENTS)
  get_property(component_packages GLOBAL PROPERTY ROWLOCK_COMPONENT_PACKAGES)
  configure_package_config_file(cmake/rowlockConfig.cmake.in rowlockConfig.cmake
    INSTALL_DESTINATION ${ROWLOCK_CMAKE_DIR} NO_SET_AND_CHECK_MACRO)
  write_basic_package_version_file(rowlockConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rowlockConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/rowlockConfigVersion.cmake
          DESTINATION ${ROWLOCK_CMAKE_DIR} COMPONENT dev)
  foreach(module mysql:MySQLConnectorCpp mysql:MariaDBClient soci:SOCI)
    string(REPLACE ":" ";" module ${module})
    list(GET module 0 name)
    list(GET module 1 package)
    # For static libraries' own needs, and for programs that use a driver themselves.
    if(TARGET rowlock_${name})
      install(FILES cmake/Find${package}.cmake DESTINATION ${ROWLOCK_CMAKE_DIR} COMPONENT dev)
    endif()
  endforeach()
endfunction()
