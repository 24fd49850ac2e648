#include <rowlock/shared_mutex.hpp>

#include "api/mutex_state.hpp"

namespace rowlock {

shared_mutex::part::part(std::unique_ptr<state> s) noexcept : basic_mutex(std::move(s)) {}

shared_mutex::shared_mutex(std::unique_ptr<state> writer, std::unique_ptr<state> reader) noexcept
    : basic_mutex(std::move(writer)), readers_(std::move(reader)) {}

}  // namespace rowlock
