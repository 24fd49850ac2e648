# The Debian packages, by CPack: rowlock (the program and all that goes with it), librowlock0 (the shared libraries) and
# librowlock-dev, as users of Debian expect. One librowlock0 for all back ends, with all drivers: those are small, and
# so is the number of packages; who wants to link one driver only builds the libraries.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME rowlock)
set(CPACK_PACKAGE_VERSION ${PROJECT_VERSION})
if(NOT CPACK_PACKAGE_CONTACT)
  set(CPACK_PACKAGE_CONTACT "the rowlock authors <rowlock@localhost>")
endif()
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE
    WORLD_READ WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL program library dev)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR}/lib)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")

# rowlock_debian_package(<component> <name> <section> <summary> <description>)
function(rowlock_debian_package component name section summary text)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section} PARENT_SCOPE)
  set(CPACK_DEBIAN_${upper}_DESCRIPTION "${summary}
rowlock lets one process at a time, on any number of hosts, do what must not
be done twice at once. The lock is a row in PostgreSQL, MySQL, MariaDB or
SQLite: there is no new server to run.

${text}" PARENT_SCOPE)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/debian/copyright ${CMAKE_CURRENT_BINARY_DIR}/debian/changelog.Debian.gz
          DESTINATION share/doc/${name} COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()

# Each package has a summary of its own.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")
rowlock_debian_package(program rowlock admin "locks for programs on many hosts, from the SQL database they have"
  "This package has the program: 'rowlock run' is flock(1) for many hosts.")
rowlock_debian_package(library librowlock${ROWLOCK_ABI} libs "distributed locks from SQL databases: libraries"
  "This package has the shared libraries.")
rowlock_debian_package(dev librowlock-dev libdevel "distributed locks from SQL databases: development files"
  "This package has the headers, and what CMake and pkg-config need to find them.")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_DEPENDS "librowlock${ROWLOCK_ABI} (= ${version}), passwd")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SUGGESTS "bash-completion, cron | systemd")
set(CPACK_DEBIAN_PROGRAM_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_LIST_DIR}/postinst ${CMAKE_CURRENT_LIST_DIR}/prerm
    ${CMAKE_CURRENT_LIST_DIR}/postrm)
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/debian/triggers "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${CMAKE_CURRENT_BINARY_DIR}/debian/triggers)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "librowlock${ROWLOCK_ABI} (= ${version})")
# For programs that use a driver themselves (lib/doc/build.md).
set(CPACK_DEBIAN_DEV_PACKAGE_SUGGESTS "libpq-dev, libsqlite3-dev, libmysqlcppconn-dev, libsoci-dev")

string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(READ ${PROJECT_SOURCE_DIR}/LICENSE license)
string(REGEX REPLACE "^MIT License\n+Copyright[^\n]*\n+" "" license "${license}")
string(REGEX REPLACE "\n+$" "" license "${license}")
string(REGEX REPLACE "\n\n" "\n.\n" license "${license}")
string(REPLACE "\n" "\n " license " ${license}")
configure_file(tools/debian/copyright.in debian/copyright @ONLY)
configure_file(tools/debian/changelog.in debian/changelog.Debian @ONLY)
configure_file(CHANGELOG.md debian/changelog COPYONLY)
execute_process(COMMAND gzip -9nf debian/changelog.Debian debian/changelog
                WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} COMMAND_ERROR_IS_FATAL ANY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/debian/changelog.gz DESTINATION share/doc/rowlock COMPONENT program
        EXCLUDE_FROM_ALL)

include(CPack)
