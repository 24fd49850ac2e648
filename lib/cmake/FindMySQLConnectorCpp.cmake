# MySQL Connector/C++ with the JDBC-like interface of its versions 1.1 (header mysql_driver.h, library mysqlcppconn). It
# installs neither a CMake configuration nor a .pc file. Sets MySQLConnectorCpp_FOUND and makes the target
# MySQLConnectorCpp::MySQLConnectorCpp.
find_path(MySQLConnectorCpp_INCLUDE_DIR mysql_driver.h)
find_library(MySQLConnectorCpp_LIBRARY mysqlcppconn)
mark_as_advanced(MySQLConnectorCpp_INCLUDE_DIR MySQLConnectorCpp_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MySQLConnectorCpp DEFAULT_MSG MySQLConnectorCpp_LIBRARY MySQLConnectorCpp_INCLUDE_DIR)

if(MySQLConnectorCpp_FOUND AND NOT TARGET MySQLConnectorCpp::MySQLConnectorCpp)
  add_library(MySQLConnectorCpp::MySQLConnectorCpp UNKNOWN IMPORTED)
  set_target_properties(MySQLConnectorCpp::MySQLConnectorCpp PROPERTIES
    IMPORTED_LOCATION "${MySQLConnectorCpp_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${MySQLConnectorCpp_INCLUDE_DIR}")
endif()
