#include <utility>  // Boost 1.74 forgets it

#include <boost/asio.hpp>
#if BOOST_ASIO_VERSION >= 102200
#include <boost/asio/experimental/as_tuple.hpp>
#include <boost/asio/experimental/deferred.hpp>
#define ASIO_CASES_HAVE_SLOTS
#endif
#ifdef BOOST_ASIO_HAS_CO_AWAIT
#ifdef ASIO_CASES_HAVE_SLOTS
#include <boost/asio/experimental/awaitable_operators.hpp>
#endif
#define ASIO_CASES_HAVE_COROUTINES
#endif

namespace net = boost::asio;
using net_error_code = boost::system::error_code;
#define ASIO_CASES_NAME "Boost.Asio"
#include "asio/cases.hpp"
