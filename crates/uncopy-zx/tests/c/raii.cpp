// The style of zx::channel: handles that close themselves, statuses, no exceptions.
#include <array>
#include <cstring>
#include <thread>
#include <utility>
#include <vector>

#include <zircon/assert.h>
#include <zircon/availability.h>
#include <zircon/limits.h>
#include <zircon/object.h>

#include "check.h"

namespace zx {

class object_base {
 public:
  object_base() = default;
  explicit object_base(zx_handle_t value) : value_(value) {}
  object_base(object_base&& other) noexcept : value_(other.release()) {}
  object_base& operator=(object_base&& other) noexcept {
    reset(other.release());
    return *this;
  }
  object_base(const object_base&) = delete;
  object_base& operator=(const object_base&) = delete;
  ~object_base() { reset(); }

  void reset(zx_handle_t value = ZX_HANDLE_INVALID) {
    zx_handle_close(std::exchange(value_, value));
  }
  [[nodiscard]] zx_handle_t release() { return std::exchange(value_, ZX_HANDLE_INVALID); }
  zx_handle_t get() const { return value_; }
  zx_handle_t* reset_and_get_address() {
    reset();
    return &value_;
  }
  bool is_valid() const { return value_ != ZX_HANDLE_INVALID; }

  zx_status_t wait_one(zx_signals_t signals, zx_time_t deadline, zx_signals_t* pending) const {
    return zx_object_wait_one(value_, signals, deadline, pending);
  }
  zx_status_t wait_async(const object_base& port, uint64_t key, zx_signals_t signals,
                         uint32_t options) const {
    return zx_object_wait_async(value_, port.get(), key, signals, options);
  }
  template <typename T>
  zx_status_t duplicate(zx_rights_t rights, T* result) const {
    return zx_handle_duplicate(value_, rights, result->reset_and_get_address());
  }

 private:
  zx_handle_t value_ = ZX_HANDLE_INVALID;
};

class event : public object_base {
 public:
  using object_base::object_base;
  static zx_status_t create(uint32_t options, event* result) {
    return zx_event_create(options, result->reset_and_get_address());
  }
};

class port : public object_base {
 public:
  static zx_status_t create(uint32_t options, port* result) {
    return zx_port_create(options, result->reset_and_get_address());
  }
  zx_status_t wait(zx_time_t deadline, zx_port_packet_t* packet) const {
    return zx_port_wait(get(), deadline, packet);
  }
};

class channel : public object_base {
 public:
  using object_base::object_base;
  static zx_status_t create(uint32_t flags, channel* endpoint0, channel* endpoint1) {
    return zx_channel_create(flags, endpoint0->reset_and_get_address(),
                             endpoint1->reset_and_get_address());
  }
  zx_status_t read(uint32_t flags, void* bytes, zx_handle_t* handles, uint32_t num_bytes,
                   uint32_t num_handles, uint32_t* actual_bytes, uint32_t* actual_handles) const {
    return zx_channel_read(get(), flags, bytes, handles, num_bytes, num_handles, actual_bytes,
                           actual_handles);
  }
  zx_status_t write(uint32_t flags, const void* bytes, uint32_t num_bytes,
                    const zx_handle_t* handles, uint32_t num_handles) const {
    return zx_channel_write(get(), flags, bytes, num_bytes, handles, num_handles);
  }
  zx_status_t call(uint32_t flags, zx_time_t deadline, const zx_channel_call_args_t* args,
                   uint32_t* actual_bytes, uint32_t* actual_handles) const {
    return zx_channel_call(get(), flags, deadline, args, actual_bytes, actual_handles);
  }
};

}  // namespace zx

namespace {

void channels_close_themselves() {
  zx::channel kept;
  {
    zx::channel dropped;
    OK(zx::channel::create(0, &kept, &dropped));
    ZX_ASSERT(kept.is_valid());
  }
  zx_signals_t pending = 0;
  OK(kept.wait_one(ZX_CHANNEL_PEER_CLOSED, ZX_TIME_INFINITE, &pending));
  EQ(pending, ZX_CHANNEL_PEER_CLOSED);
}

void handles_are_released_into_messages() {
  zx::channel near, far;
  zx::event event;
  OK(zx::channel::create(0, &near, &far));
  OK(zx::event::create(0, &event));
  std::array<zx_handle_t, 1> sent = {event.release()};
  std::vector<zx_channel_iovec_t> parts = {
      {"head", 4, 0},
      {"body", 4, 0},
  };
  OK(near.write(ZX_CHANNEL_WRITE_USE_IOVEC, parts.data(), static_cast<uint32_t>(parts.size()),
                sent.data(), static_cast<uint32_t>(sent.size())));
  std::array<char, 8> bytes;
  zx::event got;
  uint32_t actual_bytes, actual_handles;
  OK(far.read(0, bytes.data(), got.reset_and_get_address(), 8, 1, &actual_bytes,
              &actual_handles));
  EQ(std::memcmp(bytes.data(), "headbody", 8), 0);
  EQ(actual_handles, 1);
  zx::event copy;
  OK(got.duplicate(ZX_RIGHT_SAME_RIGHTS, &copy));
}

void ports_hear_of_threads() {
  zx::channel near, far;
  zx::port port;
  OK(zx::channel::create(0, &near, &far));
  OK(zx::port::create(0, &port));
  OK(far.wait_async(port, 42, ZX_CHANNEL_READABLE, 0));
  std::thread writer([&near] { OK(near.write(0, "x", 1, nullptr, 0)); });
  zx_port_packet_t packet;
  OK(port.wait(ZX_TIME_INFINITE, &packet));
  EQ(packet.key, 42);
  EQ(packet.signal.observed, ZX_CHANNEL_READABLE | ZX_CHANNEL_WRITABLE);
  writer.join();
}

void calls_time_out() {
  zx::channel near, far;
  OK(zx::channel::create(0, &near, &far));
  zx_txid_t request = 0, reply = 0;
  zx_channel_call_args_t args = {};
  args.wr_bytes = &request;
  args.wr_num_bytes = sizeof(request);
  args.rd_bytes = &reply;
  args.rd_num_bytes = sizeof(reply);
  uint32_t bytes, handles;
  EQ(near.call(0, zx_deadline_after(ZX_MSEC(1)), &args, &bytes, &handles), ZX_ERR_TIMED_OUT);
}

}  // namespace

int main() {
  choose_mode();
  RUN(channels_close_themselves);
  RUN(handles_are_released_into_messages);
  RUN(ports_hear_of_threads);
  RUN(calls_time_out);
  return failures != 0;
}
