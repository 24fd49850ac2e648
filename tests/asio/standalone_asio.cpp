#include <asio.hpp>
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/deferred.hpp>
#define ASIO_CASES_HAVE_SLOTS
#ifdef ASIO_HAS_CO_AWAIT
#include <asio/experimental/awaitable_operators.hpp>
#define ASIO_CASES_HAVE_COROUTINES
#endif

namespace net = asio;
using net_error_code = std::error_code;
#define ASIO_CASES_NAME "Asio"
#include "asio/cases.hpp"
