# The API reference by Doxygen, in <build>/lib/html: cmake --build build --target rowlock_reference. It fails if anything is
# said wrongly: a parameter or a class that is not there, a command that is none.
find_package(Doxygen QUIET)
if(NOT DOXYGEN_FOUND)
  return()
endif()
set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
set(DOXYGEN_QUIET YES)
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
# What needs no words, such as name(), is in it all the same.
set(DOXYGEN_EXTRACT_ALL YES)
set(DOXYGEN_HIDE_UNDOC_RELATIONS YES)
set(DOXYGEN_EXCLUDE_SYMBOLS rowlock::backend rowlock::guard rowlock::process)
set(DOXYGEN_MACRO_EXPANSION YES)
set(DOXYGEN_EXPAND_ONLY_PREDEF YES)
set(DOXYGEN_PREDEFINED ROWLOCK_EXPORT=)
# Doxygen 1.9.4 drops what is before "inline"; users write rowlock::mutex.
set(DOXYGEN_INPUT_FILTER "sed s/::inline.ROWLOCK_ABI_NAMESPACE//")
set(DOXYGEN_STRIP_FROM_INC_PATH ${CMAKE_CURRENT_SOURCE_DIR}/include)
set(DOXYGEN_HAVE_DOT NO)
doxygen_add_docs(rowlock_reference include doc/reference.md COMMENT "Making the API reference")
