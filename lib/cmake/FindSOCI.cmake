# SOCI 4. Debian's package installs neither a CMake configuration nor a .pc file. Sets SOCI_FOUND and makes the targets
# SOCI::core, SOCI::headers for including the headers of its back ends postgresql, mysql and sqlite3 (it links what these
# include), and the back ends themselves, SOCI::postgresql and so on. SOCI_FOUND wants all of them.
find_path(SOCI_INCLUDE_DIR soci/connection-pool.h)
find_library(SOCI_core_LIBRARY soci_core)
set(soci_required SOCI_INCLUDE_DIR SOCI_core_LIBRARY)
foreach(backend postgresql mysql sqlite3)
  find_library(SOCI_${backend}_LIBRARY soci_${backend})
  list(APPEND soci_required SOCI_${backend}_LIBRARY)
endforeach()
# soci-mysql.h includes mysql.h as <mysql.h>.
find_path(SOCI_mysql_CLIENT_INCLUDE_DIR mysql.h PATH_SUFFIXES mariadb)
find_library(SOCI_mysql_CLIENT_LIBRARY mariadb)
list(APPEND soci_required SOCI_mysql_CLIENT_INCLUDE_DIR SOCI_mysql_CLIENT_LIBRARY)
mark_as_advanced(${soci_required})
find_package(PostgreSQL QUIET)
find_package(SQLite3 QUIET)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(SOCI DEFAULT_MSG ${soci_required} PostgreSQL_FOUND SQLite3_FOUND)

if(SOCI_FOUND AND NOT TARGET SOCI::core)
  foreach(part core postgresql mysql sqlite3)
    add_library(SOCI::${part} UNKNOWN IMPORTED)
    set_target_properties(SOCI::${part} PROPERTIES IMPORTED_LOCATION "${SOCI_${part}_LIBRARY}")
  endforeach()
  set_target_properties(SOCI::core PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${SOCI_INCLUDE_DIR}")
  add_library(SOCI::headers INTERFACE IMPORTED)
  set_target_properties(SOCI::headers PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES "${SOCI_mysql_CLIENT_INCLUDE_DIR}"
    INTERFACE_LINK_LIBRARIES "SOCI::core;PostgreSQL::PostgreSQL;SQLite::SQLite3;${SOCI_mysql_CLIENT_LIBRARY}")
  foreach(part postgresql mysql sqlite3)
    set_target_properties(SOCI::${part} PROPERTIES INTERFACE_LINK_LIBRARIES SOCI::headers)
  endforeach()
endif()
