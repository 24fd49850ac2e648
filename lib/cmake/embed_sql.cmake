# rowlock_embed_sql(<dialect>): writes <build>/embedded_<dialect>.cpp with the statements of lib/sql/<dialect>/*.sql
# ("-- name: X" blocks) and the migrations of migrations/<dialect>/, and sets ROWLOCK_EMBEDDED_<dialect> to its path.
# A block of "-- fragment: X" is put in wherever a statement says <<X T>>, with T in place of the fragment's <<>>.
# At configure time, so that the compiler sees plain constants and a changed .sql file re-runs CMake.

# The -- name: blocks of one file, appended to the variable `out` as C++ initializers.
function(rowlock_embed_blocks file out)
  file(READ "${file}" rest)
  set(code "${${out}}")
  string(FIND "${rest}" "-- name: " at)
  while(at GREATER -1)
    string(SUBSTRING "${rest}" ${at} -1 rest)
    string(REGEX MATCH "^-- name: ([a-z_]+)\n" header "${rest}")
    if(NOT header)
      message(FATAL_ERROR "${file}: a block must begin with '-- name: lower_case_name'")
    endif()
    set(name "${CMAKE_MATCH_1}")
    string(LENGTH "${header}" skip)
    string(SUBSTRING "${rest}" ${skip} -1 rest)
    string(FIND "${rest}" "-- name: " at)
    string(SUBSTRING "${rest}" 0 ${at} body)
    # What stands above the next block's name is that block's comment.
    string(REGEX REPLACE "(\n--[^\n]*|\n)+$" "" body "${body}")
    while(body MATCHES "<<([a-z_]+) ([^<>]*)>>")
      set(mark "${CMAKE_MATCH_0}")
      string(REPLACE "<<>>" "${CMAKE_MATCH_2}" fragment "${fragment_${CMAKE_MATCH_1}}")
      if(fragment STREQUAL "")
        message(FATAL_ERROR "${file}: ${name}: there is no fragment ${mark}")
      endif()
      string(REPLACE "${mark}" "${fragment}" body "${body}")
    endwhile()
    string(APPEND code "    {\"${name}\", R\"rowlocksql(${body})rowlocksql\"},\n")
  endwhile()
  set(${out} "${code}" PARENT_SCOPE)
endfunction()

function(rowlock_embed_sql dialect)
  file(GLOB statement_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/lib/sql/${dialect}/*.sql")
  file(GLOB up_files CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/migrations/${dialect}/*.up.sql")
  set(statements "")
  foreach(file IN LISTS statement_files)
    file(READ "${file}" rest)
    string(FIND "${rest}" "-- fragment: " at)
    while(at GREATER -1)
      string(SUBSTRING "${rest}" ${at} -1 rest)
      string(FIND "${rest}" "\n-- end" end)
      string(SUBSTRING "${rest}" 0 ${end} fragment)
      string(SUBSTRING "${rest}" ${end} -1 rest)
      string(REGEX MATCH "^-- fragment: ([a-z_]+)\n" header "${fragment}")
      string(REPLACE "${header}" "" fragment_${CMAKE_MATCH_1} "${fragment}")
      string(FIND "${rest}" "-- fragment: " at)
    endwhile()
  endforeach()
  foreach(file IN LISTS statement_files)
    rowlock_embed_blocks("${file}" statements)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${file}")
  endforeach()
  set(migrations "")
  foreach(up IN LISTS up_files)
    string(REGEX REPLACE "\\.up\\.sql$" ".down.sql" down "${up}")
    get_filename_component(stem "${up}" NAME)
    if(NOT stem MATCHES "^0*([1-9][0-9]*)_([a-z0-9_]+)\\.up\\.sql$")
      message(FATAL_ERROR "${up}: migrations are named NNN_name.up.sql")
    endif()
    set(version "${CMAKE_MATCH_1}")
    set(name "${CMAKE_MATCH_2}")
    file(READ "${up}" up_text)
    file(READ "${down}" down_text)
    string(APPEND migrations "    {${version}, \"${name}\", R\"rowlocksql(${up_text})rowlocksql\",\n     R\"rowlocksql(${down_text})rowlocksql\"},\n")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${up}" "${down}")
  endforeach()
  set(output "${CMAKE_CURRENT_BINARY_DIR}/embedded_${dialect}.cpp")
  file(CONFIGURE OUTPUT "${output}" @ONLY CONTENT [=[
// Made by lib/cmake/embed_sql.cmake from lib/sql/@dialect@ and migrations/@dialect@: do not edit.
#include "backend/embedded.hpp"

namespace rowlock::backend {
namespace {
constexpr sql_text statements[] = {
@statements@};
constexpr migration_text migrations[] = {
@migrations@};
}  // namespace

std::span<sql_text const> embedded_@dialect@_statements() noexcept { return statements; }
std::span<migration_text const> embedded_@dialect@_migrations() noexcept { return migrations; }
}  // namespace rowlock::backend
]=])
  set(ROWLOCK_EMBEDDED_${dialect} "${output}" PARENT_SCOPE)
endfunction()
