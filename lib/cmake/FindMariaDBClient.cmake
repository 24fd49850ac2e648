# MariaDB's C client library, which Debian's MySQL Connector/C++ stands on. It installs no CMake configuration. Sets
# MariaDBClient_FOUND and makes the target MariaDBClient::MariaDBClient.
find_path(MariaDBClient_INCLUDE_DIR mysql.h PATH_SUFFIXES mariadb)
find_library(MariaDBClient_LIBRARY mariadb)
mark_as_advanced(MariaDBClient_INCLUDE_DIR MariaDBClient_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MariaDBClient DEFAULT_MSG MariaDBClient_LIBRARY MariaDBClient_INCLUDE_DIR)

if(MariaDBClient_FOUND AND NOT TARGET MariaDBClient::MariaDBClient)
  add_library(MariaDBClient::MariaDBClient UNKNOWN IMPORTED)
  set_target_properties(MariaDBClient::MariaDBClient PROPERTIES
    IMPORTED_LOCATION "${MariaDBClient_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${MariaDBClient_INCLUDE_DIR}")
endif()
