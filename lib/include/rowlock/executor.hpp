#pragma once
// Where the continuation of an asynchronous call runs.

#include <rowlock/export.hpp>

#include <concepts>
#include <memory>
#include <type_traits>
#include <utility>

namespace rowlock::inline ROWLOCK_ABI_NAMESPACE {

/// A continuation. Move-only, as large as a pointer; moving it throws nothing.
///
/// The program calls it once, on the thread that shall have the result. What the handler throws passes
/// through. If it is destroyed without a call, the executor has refused it: the handler is destroyed without
/// a call, and a granted lock is released.
///
/// In a forked child neither happens: the handler and the lock are the parent's.
class ROWLOCK_EXPORT posted {
 public:
  /// For the library. Each function gets the object itself.
  class work {
   public:
    work() = default;
    work(work const&) = delete;
    work& operator=(work const&) = delete;
    virtual ~work() = default;
    virtual void run(std::unique_ptr<work> itself) = 0;
    virtual void refuse(std::unique_ptr<work> itself) noexcept = 0;
  };
  explicit posted(std::unique_ptr<work> w) noexcept : work_(std::move(w)) {}
  posted(posted&&) noexcept = default;
  posted& operator=(posted&& other) noexcept;
  ~posted();

  /// Precondition: neither called nor moved from before.
  void operator()();

 private:
  std::unique_ptr<work> work_;
};

/// Names the library's own thread as the place of a continuation.
struct on_library_thread_t {
  explicit on_library_thread_t() = default;
};
inline constexpr on_library_thread_t on_library_thread{};

/// Posts continuations to an event loop, a pool of threads, or a queue of the program. Copies post to the
/// same place.
///
/// Example, with Asio: `rowlock::executor where([&io](rowlock::posted p) { asio::post(io, std::move(p)); });`
class executor {
 public:
  /// `post` is called as `post(posted&&)` on a thread of the library. It has the continuation run elsewhere,
  /// and must not wait. If it throws, or destroys the continuation, it has refused it. Calls can come at the
  /// same time, and none comes after the end of the lock_manager, or of the process. A continuation that
  /// `post` calls itself runs on the library's thread (on_library_thread).
  template <class Post>
  requires(!std::same_as<std::remove_cvref_t<Post>, executor> &&
           std::invocable<Post&, posted>) explicit executor(Post post)
      : post_(std::make_shared<model<Post>>(std::move(post))) {}

  /// One thread of the lock_manager's runs the continuations, one after the other. A continuation that waits
  /// delays the others, and must not throw. It may end the lock_manager.
  // NOLINTNEXTLINE(google-explicit-constructor): it is said by name
  executor(on_library_thread_t) noexcept {}

  /// For the library.
  bool is_library_thread() const noexcept { return post_ == nullptr; }
  /// For the library.
  void post(posted p) const { post_->post(std::move(p)); }

 private:
  struct any {
    any() = default;
    any(any const&) = delete;
    any& operator=(any const&) = delete;
    virtual ~any() = default;
    virtual void post(posted) = 0;
  };
  template <class Post>
  struct model final : any {
    explicit model(Post p) : how(std::move(p)) {}
    void post(posted p) override { how(std::move(p)); }
    Post how;
  };
  std::shared_ptr<any> post_;  ///< null: the library's thread
};

}  // namespace rowlock::inline ROWLOCK_ABI_NAMESPACE
