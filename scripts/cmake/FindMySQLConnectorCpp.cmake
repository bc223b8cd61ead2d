# Debian's libmysqlcppconn-dev 1.1.12 ships no CMake package.
find_path(MYSQLCPPCONN_INCLUDE_DIR cppconn/driver.h)
find_library(MYSQLCPPCONN_LIBRARY mysqlcppconn)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(MySQLConnectorCpp REQUIRED_VARS MYSQLCPPCONN_LIBRARY MYSQLCPPCONN_INCLUDE_DIR)
if(MySQLConnectorCpp_FOUND AND NOT TARGET MySQL::ConnectorCpp)
  add_library(MySQL::ConnectorCpp UNKNOWN IMPORTED)
  set_target_properties(MySQL::ConnectorCpp PROPERTIES IMPORTED_LOCATION "${MYSQLCPPCONN_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${MYSQLCPPCONN_INCLUDE_DIR}")
endif()
