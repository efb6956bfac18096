// The parts of the headers that C++ wrappers around handles use: templates over types of objects and
// clocks, constant times, annotations, assertions, and calls.
#include <atomic>
#include <cstdarg>
#include <ctime>
#include <limits>
#include <mutex>
#include <type_traits>
#include <utility>

#include <sys/wait.h>

#include <zircon/assert.h>
#include <zircon/availability.h>
#include <zircon/compiler.h>
#include <zircon/time.h>
#include <zircon/types.h>

#include "check.h"

namespace {

// ---- Times that are evaluated at compile time.

template <zx_clock_t kClock>
class instant final {
 public:
  constexpr instant() = default;
  explicit constexpr instant(zx_time_t value) : value_(value) {}
  explicit constexpr instant(std::timespec value) : value_(zx_time_from_timespec(value)) {}
  constexpr zx_time_t get() const { return value_; }
  constexpr instant operator+(zx_duration_t delta) const ZX_AVAILABLE_SINCE(7) {
    return instant(zx_time_add_duration(value_, delta));
  }
  constexpr instant operator-(zx_duration_t delta) const {
    return instant(zx_time_sub_duration(value_, delta));
  }
  constexpr zx_duration_t operator-(instant other) const {
    return zx_time_sub_time(value_, other.value_);
  }
  constexpr std::timespec to_timespec() const { return zx_timespec_from_time(value_); }

 private:
  zx_time_t value_ = 0;
} ZX_AVAILABLE_SINCE(7);

using mono = instant<ZX_CLOCK_MONOTONIC>;
using boot = instant<ZX_CLOCK_BOOT>;
static_assert(!std::is_same<mono, boot>::value, "two clocks");

constexpr zx_time_t kMost = std::numeric_limits<zx_time_t>::max();
constexpr zx_time_t kLeast = std::numeric_limits<zx_time_t>::min();
static_assert(ZX_TIME_INFINITE == kMost && ZX_TIME_INFINITE_PAST == kLeast, "the ends of time");
static_assert((mono(ZX_SEC(1)) + ZX_MSEC(5)).get() == 1005000000, "");
static_assert((mono(kMost) + 1).get() == kMost && (mono(kLeast) - 1).get() == kLeast, "");
static_assert((mono(kLeast) + -1).get() == kLeast && (mono(kMost) - -1).get() == kMost, "");
static_assert(mono(kMost) - mono(-1) == kMost && mono(kLeast) - mono(1) == kLeast, "");
static_assert(zx_duration_add_duration(kMost, 1) == kMost, "");
static_assert(zx_duration_sub_duration(kLeast, 1) == kLeast, "");
static_assert(zx_duration_mul_int64(kMost, 2) == kMost, "");
static_assert(zx_duration_mul_int64(kMost, -2) == kLeast, "");
static_assert(zx_duration_mul_int64(kLeast, -1) == kMost, "");
static_assert(zx_duration_mul_int64(-3, 4) == -12, "");
static_assert(zx_duration_from_nsec(7) == 7 && zx_nsec_from_duration(7) == 7, "");
static_assert(zx_duration_from_usec(7) == ZX_USEC(7) && ZX_USEC(7) == 7 * ZX_NSEC(1000), "");
static_assert(zx_duration_from_msec(7) == ZX_MSEC(7), "");
static_assert(zx_duration_from_sec(7) == ZX_SEC(7), "");
static_assert(zx_duration_from_min(7) == ZX_MIN(7) && ZX_MIN(7) == 420 * ZX_SEC(1), "");
static_assert(zx_duration_from_hour(7) == ZX_HOUR(7) && ZX_HOUR(1) == 60 * ZX_MIN(1), "");
static_assert(zx_duration_from_hour(kMost) == kMost && zx_duration_from_sec(kLeast) == kLeast, "");
static_assert(zx_ticks_add_ticks(kMost, 1) == kMost && zx_ticks_sub_ticks(3, 1) == 2, "");
static_assert(zx_ticks_mul_int64(kLeast, 2) == kLeast, "");
static_assert(mono(std::timespec{2, 3}).get() == 2000000003, "");
static_assert(mono(2000000003).to_timespec().tv_sec == 2, "");
static_assert(zx_timespec_from_duration(2000000003).tv_nsec == 3, "");
static_assert(zx_duration_from_timespec(std::timespec{1, 1}) == 1000000001, "");

// ---- Types, numbers, annotations.

static_assert(std::is_same<zx_vaddr_t, uintptr_t>::value, "");
static_assert(std::is_same<zx_paddr_t, uintptr_t>::value, "");
static_assert(std::is_same<zx_paddr32_t, uint32_t>::value, "");
static_assert(std::is_same<zx_gpaddr_t, uintptr_t>::value, "");
static_assert(std::is_same<zx_off_t, uint64_t>::value, "");
static_assert(sizeof(zx_iovec_t) == 2 * sizeof(size_t), "");
static_assert(FUCHSIA_API_LEVEL_AT_LEAST(31) && !FUCHSIA_API_LEVEL_LESS_THAN(31), "");

constexpr zx_obj_type_t kTypes[] = {
    ZX_OBJ_TYPE_NONE,     ZX_OBJ_TYPE_PROCESS,   ZX_OBJ_TYPE_THREAD,        ZX_OBJ_TYPE_VMO,
    ZX_OBJ_TYPE_CHANNEL,  ZX_OBJ_TYPE_EVENT,     ZX_OBJ_TYPE_PORT,          ZX_OBJ_TYPE_INTERRUPT,
    ZX_OBJ_TYPE_PCI_DEVICE, ZX_OBJ_TYPE_DEBUGLOG, ZX_OBJ_TYPE_SOCKET,       ZX_OBJ_TYPE_RESOURCE,
    ZX_OBJ_TYPE_EVENTPAIR, ZX_OBJ_TYPE_JOB,      ZX_OBJ_TYPE_VMAR,          ZX_OBJ_TYPE_FIFO,
    ZX_OBJ_TYPE_GUEST,    ZX_OBJ_TYPE_VCPU,      ZX_OBJ_TYPE_TIMER,         ZX_OBJ_TYPE_IOMMU,
    ZX_OBJ_TYPE_BTI,      ZX_OBJ_TYPE_PROFILE,   ZX_OBJ_TYPE_PMT,           ZX_OBJ_TYPE_SUSPEND_TOKEN,
    ZX_OBJ_TYPE_PAGER,    ZX_OBJ_TYPE_EXCEPTION, ZX_OBJ_TYPE_CLOCK,         ZX_OBJ_TYPE_STREAM,
    ZX_OBJ_TYPE_MSI,      ZX_OBJ_TYPE_IOB,       ZX_OBJ_TYPE_COUNTER,       ZX_OBJ_TYPE_UPPER_BOUND,
};
static_assert(countof(kTypes) == 32 && ZX_OBJ_TYPE_LOG == ZX_OBJ_TYPE_DEBUGLOG, "");

constexpr bool ascend() {
  for (size_t i = 1; i < countof(kTypes); ++i) {
    if (kTypes[i - 1] >= kTypes[i]) return false;
  }
  return true;
}
static_assert(ascend(), "no number twice");

template <typename T>
struct __OWNER(T) keeper {
  T value;
};

struct __POINTER(int) looker {
  int* at;
};

class __TA_CAPABILITY("mutex") lock_type {
 public:
  void acquire() __TA_ACQUIRE() { inner_.lock(); }
  bool try_acquire() __TA_TRY_ACQUIRE(true) { return inner_.try_lock(); }
  void release() __TA_RELEASE() { inner_.unlock(); }
  void acquire_shared() __TA_ACQUIRE_SHARED() { inner_.lock(); }
  void release_shared() __TA_RELEASE_SHARED() { inner_.unlock(); }
  void assert_held() __TA_ASSERT() {}
  void assert_shared() __TA_ASSERT_SHARED() {}

 private:
  std::mutex inner_;
};

class guarded {
 public:
  int add(int more) __TA_EXCLUDES(lock_) {
    lock_.acquire();
    int sum = add_locked(more);
    lock_.release();
    return sum;
  }
  lock_type& lock() __TA_RETURN_CAPABILITY(lock_) { return lock_; }
  int peek() __TA_NO_THREAD_SAFETY_ANALYSIS { return value_; }

 private:
  int add_locked(int more) __TA_REQUIRES(lock_) __TA_REQUIRES_SHARED(other_) {
    return value_ += more;
  }
  lock_type lock_ __TA_ACQUIRED_BEFORE(other_);
  lock_type other_ __TA_ACQUIRED_AFTER(lock_);
  int value_ __TA_GUARDED(lock_) = 0;
};

class __TA_SCOPED_CAPABILITY holder {
 public:
  __WARN_UNUSED_CONSTRUCTOR explicit holder(lock_type& lock) : lock_(lock) { lock_.acquire(); }
  ~holder() { lock_.release(); }

 private:
  lock_type& lock_;
};

struct nothing {};
struct compact {
  __NO_UNIQUE_ADDRESS nothing none;
  int some;
};

__PRINTFLIKE(2, 3) int print_into(char* buffer, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(buffer, 32, format, arguments);
  va_end(arguments);
  return length;
}

__NO_INLINE __NONNULL((1)) int first_of(const int* numbers) { return numbers[0]; }
__PURE int pure_of(const int* number) { return *number; }
__CONST __WARN_UNUSED_RESULT int twice(int n) { return 2 * n; }
__NO_RETURN __UNUSED void never_returns() { ZX_PANIC("it was called with %d", 1); }
__ALWAYS_INLINE inline void* caller() { return __GET_CALLER(0); }

int falls_through(int n) {
  switch (n) {
    case 1:
      ++n;
      __FALLTHROUGH;
    case 2:
      return n;
    default:
      return unlikely(n < 0) ? -1 : 0;
  }
}

}  // namespace

extern "C" __EXPORT int exported_by_the_test;
__LOCAL int local_to_the_test = 3;
__WEAK int exported_by_the_test = 4;
__WEAK __DEPRECATE void deprecated_and_weak() {}

namespace {

void annotations_change_nothing() {
  guarded number;
  EQ(number.add(2), 2);
  {
    holder hold(number.lock());
    number.lock().assert_held();
    number.lock().assert_shared();
    EQ(number.peek(), 2);
  }
  CHECK(number.lock().try_acquire());
  number.lock().release();
  number.lock().acquire_shared();
  number.lock().release_shared();
  keeper<int> kept = {5};
  looker seen = {&kept.value};
  compact both = {};
  both.some = 6;
  EQ(*seen.at + both.some, 11);
  char text[32];
  EQ(print_into(text, "%s %d", "of", 7), 4);
  const int numbers[] = {8, 9};
  EQ(first_of(numbers) + pure_of(&numbers[1]) + twice(10), 37);
  EQ(countof(numbers), 2);
  EQ(falls_through(1) + falls_through(2) + falls_through(3), 4);
  EQ(local_to_the_test + exported_by_the_test, 7);
  CHECK(caller() != nullptr && __GET_FRAME(0) != nullptr);
  zx_time_t result = 0;
  CHECK(add_overflow(kMost, kMost, &result));
  CHECK(sub_overflow(kLeast, 1, &result) && result == kMost);
  CHECK(!mul_overflow(INT64_C(3), INT64_C(4), &result) && result == 12);
  // Not constants.
  volatile int64_t hours = kMost;
  EQ(ZX_HOUR(hours), kMost);
  EQ(ZX_NSEC(hours), kMost);
  EQ(ZX_SEC(-hours), kLeast);
}

// Returns the exit status of a child that runs it.
template <typename F>
bool aborts(F&& run) {
  fflush(nullptr);
  pid_t child = fork();
  if (child == 0) {
    if (!freopen("/dev/null", "w", stderr)) _exit(1);
    run();
    _exit(0);
  }
  int status = 0;
  EQ(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}

void assertions_end_the_program() {
  int looked = 0;
  ZX_ASSERT(++looked == 1);
  ZX_ASSERT_MSG(++looked == 2, "no arguments");
  ZX_ASSERT_MSG(++looked == 3, "%d of %s", looked, "some");
  ZX_DEBUG_ASSERT(looked == 3);
  ZX_DEBUG_ASSERT_MSG(looked == 3, "%d", looked);
  ZX_DEBUG_ASSERT_COND(looked == 3);
  ZX_DEBUG_ASSERT_MSG_COND(looked == 3, "%d", looked);
  EQ(looked, 3);
  CHECK(aborts([] { ZX_ASSERT(local_to_the_test == 0); }));
  CHECK(aborts([] { ZX_ASSERT_MSG(local_to_the_test == 0, "%d", local_to_the_test); }));
  CHECK(aborts([] { ZX_PANIC("at once"); }));
  EQ(aborts([] { ZX_DEBUG_ASSERT(local_to_the_test == 0); }), ZX_DEBUG_ASSERT_IMPLEMENTED);
  EQ(aborts([] { ZX_DEBUG_ASSERT_MSG(false, "%d", 1); }), ZX_DEBUG_ASSERT_IMPLEMENTED);
  EQ(aborts([] { ZX_DEBUG_ASSERT_COND(local_to_the_test == 0); }), ZX_DEBUG_ASSERT_IMPLEMENTED);
  EQ(aborts([] { ZX_DEBUG_ASSERT_MSG_COND(false, "%d", 1); }), ZX_DEBUG_ASSERT_IMPLEMENTED);
}

// ---- Calls.

void what_is_not_here_says_so() {
  zx_handle_t vmo = ZX_HANDLE_INVALID, out = ZX_HANDLE_INVALID;
  OK(zx_vmo_create(4096, 0, &vmo));
  EQ(zx_object_get_child(vmo, 1, ZX_RIGHT_SAME_RIGHTS, &out), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_object_set_profile(vmo, ZX_HANDLE_INVALID, 0), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_vmo_create_child(vmo, ZX_VMO_CHILD_SNAPSHOT, 0, 4096, &out), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_vmo_create_contiguous(ZX_HANDLE_INVALID, 4096, 0, &out), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_vmo_create_physical(ZX_HANDLE_INVALID, 0, 4096, &out), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_vmo_transfer_data(vmo, 0, 0, 4096, vmo, 0), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_resource_create(ZX_HANDLE_INVALID, 0, 0, 0, "", 0, &out), ZX_ERR_NOT_SUPPORTED);
  CHECK(is_open(vmo));
  EQ(zx_vmo_replace_as_executable(vmo, ZX_HANDLE_INVALID, &out), ZX_ERR_NOT_SUPPORTED);
  CHECK(!is_open(vmo));
  EQ(out, ZX_HANDLE_INVALID);
}

zx_info_socket_t info_of(zx_handle_t socket) {
  zx_info_socket_t info = {};
  OK(zx_object_get_info(socket, ZX_INFO_SOCKET, &info, sizeof(info), nullptr, nullptr));
  return info;
}

void set_threshold(zx_handle_t socket, uint32_t property, size_t bytes) {
  OK(zx_object_set_property(socket, property, &bytes, sizeof(bytes)));
  size_t now = 1;
  OK(zx_object_get_property(socket, property, &now, sizeof(now)));
  EQ(now, bytes);
}

void sockets_tell_what_they_hold() {
  zx_handle_t near, far;
  OK(zx_socket_create(ZX_SOCKET_DATAGRAM, &near, &far));
  OK(zx_socket_write(near, 0, "three", 5, nullptr));
  OK(zx_socket_write(near, 0, "and", 3, nullptr));
  zx_info_socket_t info = info_of(far);
  EQ(info.options, ZX_SOCKET_DATAGRAM);
  EQ(info.rx_buf_max, 256 * 1024);
  EQ(info.rx_buf_size, 8);
  EQ(info.rx_buf_available, 5);
  EQ(info.tx_buf_size, 0);
  info = info_of(near);
  EQ(info.rx_buf_size, 0);
  EQ(info.tx_buf_max, 256 * 1024);
  EQ(info.tx_buf_size, 8);
  zx_handle_t event = new_event();
  EQ(zx_object_get_info(event, ZX_INFO_SOCKET, &info, sizeof(info), nullptr, nullptr),
     ZX_ERR_WRONG_TYPE);
  OK(zx_handle_close(event));
  OK(zx_handle_close(near));
  info = info_of(far);
  EQ(info.tx_buf_max, 0);
  EQ(info.rx_buf_size, 8);
  EQ(zx_object_get_info(far, ZX_INFO_SOCKET, &info, 47, nullptr, nullptr),
     ZX_ERR_BUFFER_TOO_SMALL);
  OK(zx_handle_close(far));
}

void thresholds_set_signals() {
  zx_handle_t near, far;
  OK(zx_socket_create(ZX_SOCKET_STREAM, &near, &far));
  set_threshold(far, ZX_PROP_SOCKET_RX_THRESHOLD, 4);
  OK(zx_socket_write(near, 0, "abc", 3, nullptr));
  CHECK(!(signals_of(far) & ZX_SOCKET_READ_THRESHOLD));
  OK(zx_socket_write(near, 0, "d", 1, nullptr));
  CHECK(signals_of(far) & ZX_SOCKET_READ_THRESHOLD);
  set_threshold(far, ZX_PROP_SOCKET_RX_THRESHOLD, 5);
  CHECK(!(signals_of(far) & ZX_SOCKET_READ_THRESHOLD));
  set_threshold(far, ZX_PROP_SOCKET_RX_THRESHOLD, 2);
  CHECK(signals_of(far) & ZX_SOCKET_READ_THRESHOLD);
  char bytes[4];
  OK(zx_socket_read(far, 0, bytes, 3, nullptr));
  CHECK(!(signals_of(far) & ZX_SOCKET_READ_THRESHOLD));
  set_threshold(far, ZX_PROP_SOCKET_RX_THRESHOLD, 0);
  CHECK(!(signals_of(far) & ZX_SOCKET_READ_THRESHOLD));

  size_t most = info_of(near).tx_buf_max;
  set_threshold(near, ZX_PROP_SOCKET_TX_THRESHOLD, most);
  CHECK(!(signals_of(near) & ZX_SOCKET_WRITE_THRESHOLD));
  OK(zx_socket_read(far, 0, bytes, 4, nullptr));
  CHECK(signals_of(near) & ZX_SOCKET_WRITE_THRESHOLD);
  OK(zx_socket_write(near, 0, "x", 1, nullptr));
  CHECK(!(signals_of(near) & ZX_SOCKET_WRITE_THRESHOLD));
  set_threshold(near, ZX_PROP_SOCKET_TX_THRESHOLD, 1);
  CHECK(signals_of(near) & ZX_SOCKET_WRITE_THRESHOLD);

  size_t bad = most + 1;
  for (uint32_t property : {ZX_PROP_SOCKET_RX_THRESHOLD, ZX_PROP_SOCKET_TX_THRESHOLD}) {
    EQ(zx_object_set_property(near, property, &bad, sizeof(bad)), ZX_ERR_INVALID_ARGS);
    EQ(zx_object_set_property(near, property, &bad, 7), ZX_ERR_BUFFER_TOO_SMALL);
    EQ(zx_object_get_property(near, property, &bad, 7), ZX_ERR_BUFFER_TOO_SMALL);
    zx_handle_t vmo;
    OK(zx_vmo_create(1, 0, &vmo));
    EQ(zx_object_get_property(vmo, property, &bad, sizeof(bad)), ZX_ERR_WRONG_TYPE);
    OK(zx_handle_close(vmo));
  }
  EQ(zx_socket_shutdown(near, 0), ZX_ERR_INVALID_ARGS);
  EQ(zx_socket_shutdown(near, 4), ZX_ERR_INVALID_ARGS);
  EQ(zx_socket_shutdown(near, ZX_SOCKET_SHUTDOWN_READ), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_socket_shutdown(near, ZX_SOCKET_SHUTDOWN_MASK), ZX_ERR_NOT_SUPPORTED);
  OK(zx_socket_shutdown(near, ZX_SOCKET_SHUTDOWN_WRITE));
  EQ(signals_of(near) & (ZX_SOCKET_WRITE_THRESHOLD | ZX_SOCKET_WRITE_DISABLED),
     ZX_SOCKET_WRITE_DISABLED);
  EQ(zx_socket_write(near, 0, "x", 1, nullptr), ZX_ERR_BAD_STATE);
  OK(zx_handle_close(far));
  bad = 1;
  EQ(zx_object_set_property(near, ZX_PROP_SOCKET_TX_THRESHOLD, &bad, sizeof(bad)),
     ZX_ERR_PEER_CLOSED);
  OK(zx_handle_close(near));
}

// As between processes: the read threshold works there, the write threshold is refused.
void thresholds_over_a_socket() {
  zx_handle_t near, far, carrier[2], arrived;
  int fd = -1;
  new_channel(carrier);
  OK(uncopy_zx_channel_to_fd(carrier[1], &fd));
  OK(uncopy_zx_channel_from_fd(fd, &carrier[1]));
  OK(zx_socket_create(ZX_SOCKET_STREAM, &near, &far));
  set_threshold(near, ZX_PROP_SOCKET_TX_THRESHOLD, 1);
  CHECK(signals_of(near) & ZX_SOCKET_WRITE_THRESHOLD);
  OK(zx_channel_write(carrier[0], 0, nullptr, 0, &far, 1));
  OK(zx_channel_read(carrier[1], 0, nullptr, &arrived, 0, 1, nullptr, nullptr));
  CHECK(!(signals_of(near) & ZX_SOCKET_WRITE_THRESHOLD));
  size_t bytes = 1;
  EQ(zx_object_set_property(near, ZX_PROP_SOCKET_TX_THRESHOLD, &bytes, sizeof(bytes)),
     ZX_ERR_NOT_SUPPORTED);
  set_threshold(arrived, ZX_PROP_SOCKET_RX_THRESHOLD, 6);
  OK(zx_socket_write(near, 0, "abc", 3, nullptr));
  CHECK(info_of(near).tx_buf_size >= 3 && info_of(near).tx_buf_max >= 256 * 1024);
  CHECK(!(signals_of(arrived) & ZX_SOCKET_READ_THRESHOLD));
  OK(zx_socket_write(near, 0, "def", 3, nullptr));
  zx_signals_t observed = 0;
  OK(zx_object_wait_one(arrived, ZX_SOCKET_READ_THRESHOLD, zx_deadline_after(ZX_SEC(20)),
                        &observed));
  EQ(info_of(arrived).rx_buf_available, 6);
  OK(zx_handle_close(near));
  OK(zx_handle_close(arrived));
  close_both(carrier);
}

void memory_is_zeroed_and_counted() {
  zx_handle_t vmo, poor;
  OK(zx_vmo_create(5000, 0, &vmo));
  uint64_t size = 0;
  OK(zx_vmo_get_stream_size(vmo, &size));
  EQ(size, 5000);
  OK(zx_vmo_set_stream_size(vmo, 8192));
  EQ(zx_vmo_set_stream_size(vmo, 8193), ZX_ERR_OUT_OF_RANGE);
  OK(zx_object_get_property(vmo, ZX_PROP_VMO_CONTENT_SIZE, &size, sizeof(size)));
  EQ(size, 8192);
  size = 7;
  OK(zx_object_set_property(vmo, ZX_PROP_VMO_CONTENT_SIZE, &size, sizeof(size)));
  OK(zx_vmo_get_stream_size(vmo, &size));
  EQ(size, 7);

  char bytes[8192];
  memset(bytes, 'x', sizeof(bytes));
  OK(zx_vmo_write(vmo, bytes, 0, sizeof(bytes)));
  OK(zx_vmo_op_range(vmo, ZX_VMO_OP_COMMIT, 0, 8192, nullptr, 0));
  OK(zx_vmo_op_range(vmo, ZX_VMO_OP_ZERO, 10, 4096, nullptr, 0));
  OK(zx_vmo_read(vmo, bytes, 0, sizeof(bytes)));
  for (size_t i = 0; i < sizeof(bytes); ++i) {
    if (bytes[i] != (i >= 10 && i < 4106 ? 0 : 'x')) EQ(i, -1);
  }
  OK(zx_vmo_op_range(vmo, ZX_VMO_OP_DECOMMIT, 4096, 4096, nullptr, 0));
  OK(zx_vmo_read(vmo, bytes, 0, sizeof(bytes)));
  EQ(bytes[0], 'x');
  EQ(bytes[8191], 0);
  EQ(zx_vmo_op_range(vmo, ZX_VMO_OP_DECOMMIT, 1, 4096, nullptr, 0), ZX_ERR_INVALID_ARGS);
  for (uint32_t op :
       {ZX_VMO_OP_CACHE_SYNC, ZX_VMO_OP_CACHE_INVALIDATE, ZX_VMO_OP_CACHE_CLEAN,
        ZX_VMO_OP_CACHE_CLEAN_INVALIDATE, ZX_VMO_OP_DONT_NEED, ZX_VMO_OP_ALWAYS_NEED}) {
    OK(zx_vmo_op_range(vmo, op, 0, 8192, nullptr, 0));
    EQ(zx_vmo_op_range(vmo, op, 1, 8192, nullptr, 0), ZX_ERR_OUT_OF_RANGE);
  }
  for (uint32_t op : {ZX_VMO_OP_LOCK, ZX_VMO_OP_UNLOCK, ZX_VMO_OP_TRY_LOCK}) {
    EQ(zx_vmo_op_range(vmo, op, 0, 8192, nullptr, 0), ZX_ERR_NOT_SUPPORTED);
  }
  for (uint32_t op : {0u, 5u, 14u, 0xffffffffu}) {
    EQ(zx_vmo_op_range(vmo, op, 0, 8192, nullptr, 0), ZX_ERR_INVALID_ARGS);
  }
  OK(zx_handle_duplicate(vmo, ZX_RIGHT_READ, &poor));
  for (uint32_t op : {ZX_VMO_OP_COMMIT, ZX_VMO_OP_DECOMMIT, ZX_VMO_OP_ZERO}) {
    EQ(zx_vmo_op_range(vmo, op, UINT64_MAX - 4095, 8192, nullptr, 0), ZX_ERR_OUT_OF_RANGE);
    EQ(zx_vmo_op_range(vmo, op, 4096, 8192, nullptr, 0), ZX_ERR_OUT_OF_RANGE);
    EQ(zx_vmo_op_range(poor, op, 0, 4096, nullptr, 0), ZX_ERR_ACCESS_DENIED);
    OK(zx_vmo_op_range(vmo, op, 0, 0, nullptr, 0));
  }
  EQ(zx_vmo_set_stream_size(poor, 1), ZX_ERR_ACCESS_DENIED);
  EQ(zx_vmo_set_cache_policy(poor, ZX_CACHE_POLICY_CACHED), ZX_ERR_ACCESS_DENIED);
  OK(zx_vmo_set_cache_policy(vmo, ZX_CACHE_POLICY_CACHED));
  EQ(zx_vmo_set_cache_policy(vmo, ZX_CACHE_POLICY_UNCACHED), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_vmo_set_cache_policy(vmo, ZX_CACHE_POLICY_MASK + 1), ZX_ERR_INVALID_ARGS);
  OK(zx_handle_close(poor));
  OK(zx_handle_close(vmo));
}

void ticks_are_nanoseconds() {
  zx_ticks_t mono = zx_ticks_get(), boot = zx_ticks_get_boot();
  CHECK(mono <= zx_clock_get_monotonic() && boot <= zx_clock_get_boot());
  EQ(zx_ticks_per_second(), ZX_SEC(1));
}

}  // namespace

int main() {
  choose_mode();
  RUN(annotations_change_nothing);
  RUN(assertions_end_the_program);
  RUN(what_is_not_here_says_so);
  RUN(sockets_tell_what_they_hold);
  RUN(thresholds_set_signals);
  RUN(thresholds_over_a_socket);
  RUN(memory_is_zeroed_and_counted);
  RUN(ticks_are_nanoseconds);
  return failures != 0;
}
