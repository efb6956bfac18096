// Unsupported calls that C++ wrappers use: every call has the expected signature, returns
// ZX_ERR_NOT_SUPPORTED and does not change its arguments; every type and constant exists.
#include <stdint.h>

#include <type_traits>
#include <utility>

#include <zircon/process.h>
#include <zircon/syscalls/clock.h>
#include <zircon/syscalls/exception.h>
#include <zircon/syscalls/iob.h>
#include <zircon/syscalls/profile.h>
#include <zircon/syscalls/scheduler.h>

#include "check.h"

namespace {

constexpr uint64_t kUntouched = 0xa5a5a5a5a5a5a5a5;

// Memory that a call could write to, for every pointer it takes.
uint64_t scratch[64];

template <typename T>
T argument() {
  if constexpr (std::is_pointer<T>::value) {
    return reinterpret_cast<T>(scratch);
  } else {
    return T{};
  }
}

template <typename... Arguments>
void refuses(const char* name, zx_status_t (*call)(Arguments...)) {
  for (uint64_t& word : scratch) word = kUntouched;
  int failures_before = failures;
  EQ(call(argument<Arguments>()...), ZX_ERR_NOT_SUPPORTED);
  for (uint64_t word : scratch) CHECK(word == kUntouched);
  if (failures != failures_before) fprintf(stderr, "  it was %s\n", name);
}

// Compiles only if the declaration has exactly this type.
#define REFUSES(name, ...)                                                                    \
  do {                                                                                        \
    static_assert(std::is_same<decltype(name), zx_status_t(__VA_ARGS__)>::value, #name);      \
    refuses(#name, name);                                                                     \
  } while (0)

using handle = zx_handle_t;
using handle_out = zx_handle_t*;

void tasks() {
  REFUSES(zx_job_create, handle, uint32_t, handle_out);
  REFUSES(zx_job_set_critical, handle, uint32_t, handle);
  REFUSES(zx_job_set_policy, handle, uint32_t, uint32_t, const void*, uint32_t);
  REFUSES(zx_process_create, handle, const char*, size_t, uint32_t, handle_out, handle_out);
  REFUSES(zx_process_start, handle, handle, zx_vaddr_t, zx_vaddr_t, handle, uintptr_t);
  REFUSES(zx_process_read_memory, handle, zx_vaddr_t, void*, size_t, size_t*);
  REFUSES(zx_process_write_memory, handle, zx_vaddr_t, const void*, size_t, size_t*);
  REFUSES(zx_thread_create, handle, const char*, size_t, uint32_t, handle_out);
  REFUSES(zx_thread_start, handle, zx_vaddr_t, zx_vaddr_t, uintptr_t, uintptr_t);
  REFUSES(zx_thread_start_regs, handle, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t);
  REFUSES(zx_thread_read_state, handle, uint32_t, void*, size_t);
  REFUSES(zx_thread_write_state, handle, uint32_t, const void*, size_t);
  REFUSES(zx_thread_raise_exception, uint32_t, uint32_t, const zx_exception_context_t*);
  REFUSES(zx_task_kill, handle);
  REFUSES(zx_task_suspend, handle, handle_out);
  REFUSES(zx_task_suspend_token, handle, handle_out);
  REFUSES(zx_task_create_exception_channel, handle, uint32_t, handle_out);
  REFUSES(zx_exception_get_thread, handle, handle_out);
  REFUSES(zx_exception_get_process, handle, handle_out);
  REFUSES(zx_object_get_child, handle, uint64_t, zx_rights_t, handle_out);
  REFUSES(zx_object_set_profile, handle, handle, uint32_t);
}

void address_spaces() {
  REFUSES(zx_vmar_allocate, handle, zx_vm_option_t, size_t, size_t, handle_out, zx_vaddr_t*);
  REFUSES(zx_vmar_destroy, handle);
  REFUSES(zx_vmar_map_clock, handle, zx_vm_option_t, size_t, handle, size_t, zx_vaddr_t*);
  REFUSES(zx_vmar_map_iob, handle, zx_vm_option_t, size_t, handle, uint32_t, uint64_t, size_t,
          zx_vaddr_t*);
  REFUSES(zx_vmar_op_range, handle, uint32_t, zx_vaddr_t, size_t, void*, size_t);
  REFUSES(zx_vmar_protect, handle, zx_vm_option_t, zx_vaddr_t, size_t);
}

void clocks_timers_counters() {
  REFUSES(zx_clock_create, uint64_t, const void*, handle_out);
  REFUSES(zx_clock_get_details, handle, uint64_t, void*);
  REFUSES(zx_clock_get_details_mapped, const void*, uint64_t, void*);
  REFUSES(zx_clock_read, handle, zx_time_t*);
  REFUSES(zx_clock_read_mapped, const void*, zx_time_t*);
  REFUSES(zx_clock_update, handle, uint64_t, const void*);
  REFUSES(zx_timer_create, uint32_t, zx_clock_t, handle_out);
  REFUSES(zx_timer_set, handle, zx_time_t, zx_duration_t);
  REFUSES(zx_timer_cancel, handle);
  REFUSES(zx_counter_create, uint32_t, handle_out);
  REFUSES(zx_counter_add, handle, int64_t);
  REFUSES(zx_counter_read, handle, int64_t*);
  REFUSES(zx_counter_write, handle, int64_t);
}

void streams_and_what_holds_bytes() {
  REFUSES(zx_stream_create, uint32_t, handle, zx_off_t, handle_out);
  REFUSES(zx_stream_writev, handle, uint32_t, const zx_iovec_t*, size_t, size_t*);
  REFUSES(zx_stream_writev_at, handle, uint32_t, zx_off_t, const zx_iovec_t*, size_t, size_t*);
  REFUSES(zx_stream_readv, handle, uint32_t, zx_iovec_t*, size_t, size_t*);
  REFUSES(zx_stream_readv_at, handle, uint32_t, zx_off_t, zx_iovec_t*, size_t, size_t*);
  REFUSES(zx_stream_seek, handle, zx_stream_seek_origin_t, int64_t, zx_off_t*);
  REFUSES(zx_iob_create, uint64_t, const void*, size_t, handle_out, handle_out);
  REFUSES(zx_iob_writev, handle, zx_iob_write_options_t, uint32_t, const zx_iovec_t*, size_t);
  REFUSES(zx_debuglog_create, handle, uint32_t, handle_out);
  REFUSES(zx_debuglog_read, handle, uint32_t, void*, size_t);
  REFUSES(zx_debuglog_write, handle, uint32_t, const void*, size_t);
  REFUSES(zx_profile_create, handle, uint32_t, const zx_profile_info_t*, handle_out);
  REFUSES(zx_pager_create, uint32_t, handle_out);
  REFUSES(zx_pager_create_vmo, handle, uint32_t, handle, uint64_t, uint64_t, handle_out);
  REFUSES(zx_pager_detach_vmo, handle, handle);
  REFUSES(zx_pager_supply_pages, handle, handle, uint64_t, uint64_t, handle, uint64_t);
  REFUSES(zx_pager_op_range, handle, uint32_t, handle, uint64_t, uint64_t, uint64_t);
  REFUSES(zx_pager_query_vmo_stats, handle, handle, uint32_t, void*, size_t);
  REFUSES(zx_vmo_create_child, handle, uint32_t, uint64_t, uint64_t, handle_out);
  REFUSES(zx_vmo_create_contiguous, handle, size_t, uint32_t, handle_out);
  REFUSES(zx_vmo_create_physical, handle, zx_paddr_t, size_t, handle_out);
  REFUSES(zx_vmo_replace_as_executable, handle, handle, handle_out);
  REFUSES(zx_vmo_transfer_data, handle, uint32_t, uint64_t, uint64_t, handle, uint64_t);
  REFUSES(zx_resource_create, handle, uint32_t, uint64_t, size_t, const char*, size_t, handle_out);
}

void the_machine() {
  REFUSES(zx_interrupt_create, handle, uint32_t, uint32_t, handle_out);
  REFUSES(zx_interrupt_bind, handle, handle, uint64_t, uint32_t);
  REFUSES(zx_interrupt_wait, handle, zx_time_t*);
  REFUSES(zx_interrupt_ack, handle);
  REFUSES(zx_interrupt_trigger, handle, uint32_t, zx_time_t);
  REFUSES(zx_interrupt_destroy, handle);
  REFUSES(zx_msi_allocate, handle, uint32_t, handle_out);
  REFUSES(zx_msi_create, handle, uint32_t, uint32_t, handle, size_t, handle_out);
  REFUSES(zx_iommu_create, handle, uint32_t, const void*, size_t, handle_out);
  REFUSES(zx_bti_create, handle, uint32_t, uint64_t, handle_out);
  REFUSES(zx_bti_pin, handle, uint32_t, handle, uint64_t, uint64_t, zx_paddr_t*, size_t, handle_out);
  REFUSES(zx_bti_release_quarantine, handle);
  REFUSES(zx_pmt_unpin, handle);
  REFUSES(zx_guest_create, handle, uint32_t, handle_out, handle_out);
  REFUSES(zx_guest_set_trap, handle, uint32_t, zx_vaddr_t, size_t, handle, uint64_t);
  REFUSES(zx_vcpu_create, handle, uint32_t, zx_vaddr_t, handle_out);
  REFUSES(zx_vcpu_enter, handle, zx_port_packet_t*);
  REFUSES(zx_vcpu_kick, handle);
  REFUSES(zx_vcpu_interrupt, handle, uint32_t);
  REFUSES(zx_vcpu_read_state, handle, uint32_t, void*, size_t);
  REFUSES(zx_vcpu_write_state, handle, uint32_t, const void*, size_t);
}

// A handle that Zircon would consume is closed, so that it does not leak; any other stays open.
void handles_are_consumed_where_zircon_consumes_them() {
  handle event = new_event();
  EQ(zx_process_start(event, event, 0, 0, ZX_HANDLE_INVALID, 0), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_timer_cancel(event), ZX_ERR_NOT_SUPPORTED);
  EQ(zx_task_kill(event), ZX_ERR_NOT_SUPPORTED);
  CHECK(is_open(event));
  EQ(zx_process_start(ZX_HANDLE_INVALID, ZX_HANDLE_INVALID, 0, 0, event, 0), ZX_ERR_NOT_SUPPORTED);
  CHECK(!is_open(event));
  event = new_event();
  EQ(zx_pmt_unpin(event), ZX_ERR_NOT_SUPPORTED);
  CHECK(!is_open(event));
}

void this_process_has_no_handles_of_its_own() {
  EQ(zx_process_self(), ZX_HANDLE_INVALID);
  EQ(zx_thread_self(), ZX_HANDLE_INVALID);
  EQ(zx_job_default(), ZX_HANDLE_INVALID);
}

// ---- Wrappers: types of objects with traits, tasks that derive from them, handles that are borrowed.

template <typename T>
struct traits {
  static constexpr bool has_children = false;
};

template <typename T = void>
class object {
 public:
  constexpr object() = default;
  explicit object(handle value) : value_(value) {}
  object(object&& other) : value_(other.release()) {}
  ~object() {
    if (value_ != ZX_HANDLE_INVALID) zx_handle_close(value_);
  }
  handle get() const { return value_; }
  handle release() { return std::exchange(value_, ZX_HANDLE_INVALID); }
  handle_out out() { return &value_; }
  zx_status_t get_child(uint64_t koid, zx_rights_t rights, object<void>* result) const {
    static_assert(traits<T>::has_children, "has none");
    return zx_object_get_child(value_, koid, rights, result->out());
  }

 private:
  handle value_ = ZX_HANDLE_INVALID;
};

template <typename T>
class unowned {
 public:
  explicit unowned(handle value) : value_(value) {}
  ~unowned() { static_cast<void>(value_.release()); }
  const T* operator->() const { return &value_; }

 private:
  T value_;
};

template <typename T>
class task : public object<T> {
 public:
  using object<T>::object;
  zx_status_t kill() const { return zx_task_kill(object<T>::get()); }
};

class job;
template <>
struct traits<job> {
  static constexpr bool has_children = true;
};

class job final : public task<job> {
 public:
  static constexpr zx_obj_type_t kType = ZX_OBJ_TYPE_JOB;
  using task::task;
  static unowned<job> ours() { return unowned<job>(zx_job_default()); }
  zx_status_t set_critical(const object<>& process) const {
    return zx_job_set_critical(get(), ZX_JOB_CRITICAL_PROCESS_RETCODE_NONZERO, process.get());
  }
};

class stream final : public object<stream> {
 public:
  static constexpr zx_obj_type_t kType = ZX_OBJ_TYPE_STREAM;
  using object::object;
  zx_status_t readv(const zx_iovec_t* vector, size_t count, size_t* actual) const {
    return zx_stream_readv(get(), 0, const_cast<zx_iovec_t*>(vector), count, actual);
  }
  zx_status_t rewind() const {
    return zx_stream_seek(get(), ZX_STREAM_SEEK_ORIGIN_START, 0, nullptr);
  }
};

class own_clock final : public object<own_clock> {
 public:
  static constexpr zx_obj_type_t kType = ZX_OBJ_TYPE_CLOCK;
  using object::object;
  static zx_status_t create(uint64_t options, const zx_clock_create_args_v1_t* args,
                            own_clock* result) {
    options = (options & ~ZX_CLOCK_ARGS_VERSION_MASK) |
              (args != nullptr ? ZX_CLOCK_ARGS_VERSION(1) : 0);
    return zx_clock_create(options, args, result->out());
  }
  class update {
   public:
    constexpr update() = default;
    update& value(zx_time_t value) {
      args_.synthetic_value = value;
      options_ |= ZX_CLOCK_UPDATE_OPTION_SYNTHETIC_VALUE_VALID;
      return *this;
    }
    update& rate(int32_t parts) {
      args_.rate_adjust = parts;
      options_ |= ZX_CLOCK_UPDATE_OPTION_RATE_ADJUST_VALID;
      return *this;
    }

   private:
    friend class own_clock;
    zx_clock_update_args_v2_t args_{};
    uint64_t options_ = ZX_CLOCK_ARGS_VERSION(2);
  };
  zx_status_t apply(const update& args) const {
    return zx_clock_update(get(), args.options_, &args.args_);
  }
};

static_assert(job::kType != stream::kType && stream::kType != own_clock::kType, "");
static_assert(ZX_CLOCK_ARGS_VERSION(1) == uint64_t{1} << 58, "");
static_assert((ZX_CLOCK_ARGS_VERSION(63) & ZX_CLOCK_ARGS_VERSION_MASK) ==
                  ZX_CLOCK_ARGS_VERSION_MASK,
              "");
static_assert(ZX_CLOCK_UPDATE_OPTION_BOTH_VALUES_VALID ==
                  (ZX_CLOCK_UPDATE_OPTION_SYNTHETIC_VALUE_VALID |
                   ZX_CLOCK_UPDATE_OPTION_REFERENCE_VALUE_VALID),
              "");
static_assert(ZX_CLOCK_OPTS_ALL == (ZX_CLOCK_OPT_MONOTONIC | ZX_CLOCK_OPT_CONTINUOUS |
                                    ZX_CLOCK_OPT_AUTO_START | ZX_CLOCK_OPT_BOOT),
              "");
static_assert(ZX_EXCP_IS_ARCH(ZX_EXCP_FATAL_PAGE_FAULT) && !ZX_EXCP_IS_ARCH(ZX_EXCP_USER), "");
static_assert(ZX_OBJ_TYPE_IOB_SHARED_REGION == ZX_OBJ_TYPE_COUNTER + 1, "");

void wrappers_around_all_of_it() {
  object<> child;
  EQ(job::ours()->get(), ZX_HANDLE_INVALID);
  EQ(job::ours()->kill(), ZX_ERR_NOT_SUPPORTED);
  EQ(job::ours()->get_child(1024, ZX_RIGHT_SAME_RIGHTS, &child), ZX_ERR_NOT_SUPPORTED);
  EQ(job::ours()->set_critical(child), ZX_ERR_NOT_SUPPORTED);

  char bytes[4] = {};
  const zx_iovec_t vector = {bytes, sizeof(bytes)};
  size_t actual = 7;
  EQ(stream().readv(&vector, 1, &actual), ZX_ERR_NOT_SUPPORTED);
  EQ(stream().rewind(), ZX_ERR_NOT_SUPPORTED);
  EQ(actual, 7);

  own_clock clock;
  zx_clock_create_args_v1_t args = {};
  args.backstop_time = 1;
  EQ(own_clock::create(ZX_CLOCK_OPT_AUTO_START, &args, &clock), ZX_ERR_NOT_SUPPORTED);
  EQ(clock.get(), ZX_HANDLE_INVALID);
  own_clock::update update;
  EQ(clock.apply(update.value(5).rate(ZX_CLOCK_UPDATE_MAX_RATE_ADJUST)), ZX_ERR_NOT_SUPPORTED);
  zx_clock_details_v1_t details = {};
  EQ(zx_clock_get_details(clock.get(), ZX_CLOCK_ARGS_VERSION(1), &details), ZX_ERR_NOT_SUPPORTED);
  EQ(details.generation_counter + details.reference_to_synthetic.rate.synthetic_ticks, 0);

  zx_profile_info_t profile = {};
  profile.flags = ZX_PROFILE_INFO_FLAG_DEADLINE;
  profile.deadline_params = {ZX_MSEC(1), ZX_MSEC(2), ZX_MSEC(3)};
  profile.cpu_affinity_mask.mask[0] = 3;
  EQ(zx_profile_create(ZX_HANDLE_INVALID, 0, &profile, child.out()), ZX_ERR_NOT_SUPPORTED);
  profile.priority = ZX_PRIORITY_HIGH;

  zx_iob_region_t region = {};
  region.type = ZX_IOB_REGION_TYPE_PRIVATE;
  region.access = ZX_IOB_ACCESS_EP0_CAN_MAP_WRITE | ZX_IOB_ACCESS_EP1_CAN_MAP_READ;
  region.discipline.type = ZX_IOB_DISCIPLINE_TYPE_NONE;
  region.private_region.options = 0;
  object<> ends[2];
  EQ(zx_iob_create(0, &region, 1, ends[0].out(), ends[1].out()), ZX_ERR_NOT_SUPPORTED);

  zx_exception_context_t context = {};
  context.synth_code = ZX_EXCP_USER_CODE_USER0;
  context.arch.u.x86_64.vector = 1;
  EQ(zx_thread_raise_exception(ZX_EXCEPTION_TARGET_JOB_DEBUGGER, ZX_EXCP_USER, &context),
     ZX_ERR_NOT_SUPPORTED);
}

}  // namespace

int main() {
  choose_mode();
  RUN(tasks);
  RUN(address_spaces);
  RUN(clocks_timers_counters);
  RUN(streams_and_what_holds_bytes);
  RUN(the_machine);
  RUN(handles_are_consumed_where_zircon_consumes_them);
  RUN(this_process_has_no_handles_of_its_own);
  RUN(wrappers_around_all_of_it);
  return failures != 0;
}
