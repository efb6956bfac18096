/* The interface of Zircon's types, on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0. */
#ifndef UNCOPY_ZIRCON_TYPES_H_
#define UNCOPY_ZIRCON_TYPES_H_

#include <stddef.h>
#include <stdint.h>
#include <zircon/compiler.h>
#include <zircon/errors.h>
#include <zircon/rights.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A handle: the two low bits of a valid one are set. The value of a closed or moved
 * handle is not reused before 4 Mi other handles were created, unless almost 1 Mi are open at once. */
typedef uint32_t zx_handle_t;
#define ZX_HANDLE_INVALID ((zx_handle_t)0u)
#define ZX_HANDLE_FIXED_BITS_MASK ((zx_handle_t)3u)

/* ZX_OK, or one of zircon/errors.h. */
typedef int32_t zx_status_t;

/* Nanoseconds: a time of a clock, and a duration. */
typedef int64_t zx_time_t;
typedef int64_t zx_duration_t;
typedef int64_t zx_ticks_t;
/* Clocks: CLOCK_MONOTONIC and CLOCK_BOOTTIME. */
typedef uint32_t zx_clock_t;
#define ZX_CLOCK_MONOTONIC ((zx_clock_t)0u)
#define ZX_CLOCK_BOOT ((zx_clock_t)1u)
/* Times of one clock. They are plain zx_time_t in C and in C++. */
typedef zx_time_t zx_instant_mono_t;
typedef zx_time_t zx_instant_boot_t;
typedef zx_duration_t zx_duration_mono_t;
typedef zx_duration_t zx_duration_boot_t;
typedef zx_ticks_t zx_instant_mono_ticks_t;
typedef zx_ticks_t zx_instant_boot_ticks_t;
typedef zx_ticks_t zx_duration_mono_ticks_t;
typedef zx_ticks_t zx_duration_boot_ticks_t;
#define ZX_TIME_INFINITE INT64_MAX
#define ZX_TIME_INFINITE_PAST INT64_MIN

/* Addresses: virtual, physical, of a guest; and an offset in a file or in memory. */
typedef uintptr_t zx_vaddr_t;
typedef uintptr_t zx_paddr_t;
typedef uint32_t zx_paddr32_t;
typedef uintptr_t zx_gpaddr_t;
typedef uint64_t zx_off_t;

/* A region, as for readv(2). */
typedef struct zx_iovec {
  void* buffer;
  size_t capacity;
} zx_iovec_t;

/* Number of an object, never used twice in a process. */
typedef uint64_t zx_koid_t;
#define ZX_KOID_INVALID ((uint64_t)0)
#define ZX_KOID_KERNEL ((uint64_t)1)
#define ZX_KOID_FIRST ((uint64_t)1024)

/* The first four bytes of a message that is a call or the answer to one. */
typedef uint32_t zx_txid_t;

typedef uint32_t zx_signals_t;
#define ZX_SIGNAL_NONE ((zx_signals_t)0u)
#define ZX_OBJECT_SIGNAL_ALL ((zx_signals_t)0x00ffffffu)
#define ZX_USER_SIGNAL_ALL ((zx_signals_t)0xff000000u)
#define ZX_OBJECT_SIGNAL_0 ((zx_signals_t)1u << 0)
#define ZX_OBJECT_SIGNAL_1 ((zx_signals_t)1u << 1)
#define ZX_OBJECT_SIGNAL_2 ((zx_signals_t)1u << 2)
#define ZX_OBJECT_SIGNAL_3 ((zx_signals_t)1u << 3)
#define ZX_OBJECT_SIGNAL_4 ((zx_signals_t)1u << 4)
#define ZX_OBJECT_SIGNAL_5 ((zx_signals_t)1u << 5)
#define ZX_OBJECT_SIGNAL_6 ((zx_signals_t)1u << 6)
#define ZX_OBJECT_SIGNAL_7 ((zx_signals_t)1u << 7)
#define ZX_OBJECT_SIGNAL_8 ((zx_signals_t)1u << 8)
#define ZX_OBJECT_SIGNAL_9 ((zx_signals_t)1u << 9)
#define ZX_OBJECT_SIGNAL_10 ((zx_signals_t)1u << 10)
#define ZX_OBJECT_SIGNAL_11 ((zx_signals_t)1u << 11)
#define ZX_OBJECT_SIGNAL_12 ((zx_signals_t)1u << 12)
#define ZX_OBJECT_SIGNAL_13 ((zx_signals_t)1u << 13)
#define ZX_OBJECT_SIGNAL_14 ((zx_signals_t)1u << 14)
#define ZX_OBJECT_SIGNAL_15 ((zx_signals_t)1u << 15)
#define ZX_OBJECT_SIGNAL_16 ((zx_signals_t)1u << 16)
#define ZX_OBJECT_SIGNAL_17 ((zx_signals_t)1u << 17)
#define ZX_OBJECT_SIGNAL_18 ((zx_signals_t)1u << 18)
#define ZX_OBJECT_SIGNAL_19 ((zx_signals_t)1u << 19)
#define ZX_OBJECT_SIGNAL_20 ((zx_signals_t)1u << 20)
#define ZX_OBJECT_SIGNAL_21 ((zx_signals_t)1u << 21)
#define ZX_OBJECT_SIGNAL_22 ((zx_signals_t)1u << 22)
#define ZX_OBJECT_SIGNAL_23 ((zx_signals_t)1u << 23)

#define ZX_OBJECT_HANDLE_CLOSED ZX_OBJECT_SIGNAL_23
#define ZX_USER_SIGNAL_0 ((zx_signals_t)1u << 24)
#define ZX_USER_SIGNAL_1 ((zx_signals_t)1u << 25)
#define ZX_USER_SIGNAL_2 ((zx_signals_t)1u << 26)
#define ZX_USER_SIGNAL_3 ((zx_signals_t)1u << 27)
#define ZX_USER_SIGNAL_4 ((zx_signals_t)1u << 28)
#define ZX_USER_SIGNAL_5 ((zx_signals_t)1u << 29)
#define ZX_USER_SIGNAL_6 ((zx_signals_t)1u << 30)
#define ZX_USER_SIGNAL_7 ((zx_signals_t)1u << 31)

#define ZX_OBJECT_READABLE ZX_OBJECT_SIGNAL_0
#define ZX_OBJECT_WRITABLE ZX_OBJECT_SIGNAL_1
#define ZX_OBJECT_PEER_CLOSED ZX_OBJECT_SIGNAL_2
/* Observed by waits that end because their handle was closed. */
#define ZX_SIGNAL_HANDLE_CLOSED ZX_OBJECT_HANDLE_CLOSED

#define ZX_EVENT_SIGNALED ZX_OBJECT_SIGNAL_3
#define ZX_EVENT_SIGNAL_MASK (ZX_USER_SIGNAL_ALL | ZX_OBJECT_SIGNAL_3)
#define ZX_EVENTPAIR_SIGNALED ZX_OBJECT_SIGNAL_3
#define ZX_EVENTPAIR_PEER_CLOSED ZX_OBJECT_PEER_CLOSED
#define ZX_EVENTPAIR_SIGNAL_MASK (ZX_USER_SIGNAL_ALL | ZX_OBJECT_SIGNAL_2 | ZX_OBJECT_SIGNAL_3)
#define ZX_CHANNEL_READABLE ZX_OBJECT_READABLE
#define ZX_CHANNEL_WRITABLE ZX_OBJECT_WRITABLE
#define ZX_CHANNEL_PEER_CLOSED ZX_OBJECT_PEER_CLOSED
#define ZX_FIFO_READABLE ZX_OBJECT_READABLE
#define ZX_FIFO_WRITABLE ZX_OBJECT_WRITABLE
#define ZX_FIFO_PEER_CLOSED ZX_OBJECT_PEER_CLOSED
#define ZX_SOCKET_READABLE ZX_OBJECT_READABLE
#define ZX_SOCKET_WRITABLE ZX_OBJECT_WRITABLE
#define ZX_SOCKET_PEER_CLOSED ZX_OBJECT_PEER_CLOSED
#define ZX_SOCKET_PEER_WRITE_DISABLED ZX_OBJECT_SIGNAL_4
#define ZX_SOCKET_WRITE_DISABLED ZX_OBJECT_SIGNAL_5
#define ZX_SOCKET_READ_THRESHOLD ZX_OBJECT_SIGNAL_10
#define ZX_SOCKET_WRITE_THRESHOLD ZX_OBJECT_SIGNAL_11

typedef uint32_t zx_obj_type_t;
#define ZX_OBJ_TYPE_NONE ((zx_obj_type_t)0u)
#define ZX_OBJ_TYPE_PROCESS ((zx_obj_type_t)1u)
#define ZX_OBJ_TYPE_THREAD ((zx_obj_type_t)2u)
#define ZX_OBJ_TYPE_VMO ((zx_obj_type_t)3u)
#define ZX_OBJ_TYPE_CHANNEL ((zx_obj_type_t)4u)
#define ZX_OBJ_TYPE_EVENT ((zx_obj_type_t)5u)
#define ZX_OBJ_TYPE_PORT ((zx_obj_type_t)6u)
#define ZX_OBJ_TYPE_INTERRUPT ((zx_obj_type_t)9u)
#define ZX_OBJ_TYPE_PCI_DEVICE ((zx_obj_type_t)11u)
#define ZX_OBJ_TYPE_DEBUGLOG ((zx_obj_type_t)12u)
#define ZX_OBJ_TYPE_LOG ZX_OBJ_TYPE_DEBUGLOG
#define ZX_OBJ_TYPE_SOCKET ((zx_obj_type_t)14u)
#define ZX_OBJ_TYPE_RESOURCE ((zx_obj_type_t)15u)
#define ZX_OBJ_TYPE_EVENTPAIR ((zx_obj_type_t)16u)
#define ZX_OBJ_TYPE_JOB ((zx_obj_type_t)17u)
#define ZX_OBJ_TYPE_VMAR ((zx_obj_type_t)18u)
#define ZX_OBJ_TYPE_FIFO ((zx_obj_type_t)19u)
#define ZX_OBJ_TYPE_GUEST ((zx_obj_type_t)20u)
#define ZX_OBJ_TYPE_VCPU ((zx_obj_type_t)21u)
#define ZX_OBJ_TYPE_TIMER ((zx_obj_type_t)22u)
#define ZX_OBJ_TYPE_IOMMU ((zx_obj_type_t)23u)
#define ZX_OBJ_TYPE_BTI ((zx_obj_type_t)24u)
#define ZX_OBJ_TYPE_PROFILE ((zx_obj_type_t)25u)
#define ZX_OBJ_TYPE_PMT ((zx_obj_type_t)26u)
#define ZX_OBJ_TYPE_SUSPEND_TOKEN ((zx_obj_type_t)27u)
#define ZX_OBJ_TYPE_PAGER ((zx_obj_type_t)28u)
#define ZX_OBJ_TYPE_EXCEPTION ((zx_obj_type_t)29u)
#define ZX_OBJ_TYPE_CLOCK ((zx_obj_type_t)30u)
#define ZX_OBJ_TYPE_STREAM ((zx_obj_type_t)31u)
#define ZX_OBJ_TYPE_MSI ((zx_obj_type_t)32u)
#define ZX_OBJ_TYPE_IOB ((zx_obj_type_t)33u)
#define ZX_OBJ_TYPE_COUNTER ((zx_obj_type_t)34u)
#define ZX_OBJ_TYPE_IOB_SHARED_REGION ((zx_obj_type_t)35u)
#define ZX_OBJ_TYPE_UPPER_BOUND ((zx_obj_type_t)64u)

/* Limits of one message. */
#define ZX_CHANNEL_MAX_MSG_BYTES ((uint32_t)65536u)
#define ZX_CHANNEL_MAX_MSG_HANDLES ((uint32_t)64u)
#define ZX_CHANNEL_MAX_MSG_IOVECS ((uint32_t)8192u)
#define ZX_CHANNEL_MAX_MSG_IOVEC ZX_CHANNEL_MAX_MSG_IOVECS

/* zx_channel_read: drop the message if it does not fit. */
#define ZX_CHANNEL_READ_MAY_DISCARD ((uint32_t)1u)
/* zx_channel_write, _write_etc, _call, _call_etc: bytes is an array of zx_channel_iovec_t. */
#define ZX_CHANNEL_WRITE_USE_IOVEC ((uint32_t)2u)
#define ZX_CHANNEL_WRITE_CONST_IOVEC ZX_CHANNEL_WRITE_USE_IOVEC

/* A part of a message. buffer may be NULL if capacity is 0; reserved must be 0. */
typedef struct zx_channel_iovec {
  const void* buffer;
  uint32_t capacity;
  uint32_t reserved;
} zx_channel_iovec_t;

/* How zx_channel_write_etc sends a handle. */
typedef uint32_t zx_handle_op_t;
#define ZX_HANDLE_OP_MOVE ((zx_handle_op_t)0u)
#define ZX_HANDLE_OP_DUPLICATE ((zx_handle_op_t)1u)

typedef struct zx_handle_disposition {
  zx_handle_op_t operation;
  zx_handle_t handle;
  /* Type that it must have, or ZX_OBJ_TYPE_NONE. */
  zx_obj_type_t type;
  /* Rights of the sent handle, or ZX_RIGHT_SAME_RIGHTS. */
  zx_rights_t rights;
  /* Written if this entry failed; otherwise not changed. */
  zx_status_t result;
} zx_handle_disposition_t;

/* A handle with type and rights. */
typedef struct zx_handle_info {
  zx_handle_t handle;
  zx_obj_type_t type;
  zx_rights_t rights;
  uint32_t unused;
} zx_handle_info_t;

typedef struct zx_channel_call_args {
  const void* wr_bytes;
  const zx_handle_t* wr_handles;
  void* rd_bytes;
  zx_handle_t* rd_handles;
  uint32_t wr_num_bytes;
  uint32_t wr_num_handles;
  uint32_t rd_num_bytes;
  uint32_t rd_num_handles;
} zx_channel_call_args_t;

typedef struct zx_channel_call_etc_args {
  const void* wr_bytes;
  zx_handle_disposition_t* wr_handles;
  void* rd_bytes;
  zx_handle_info_t* rd_handles;
  uint32_t wr_num_bytes;
  uint32_t wr_num_handles;
  uint32_t rd_num_bytes;
  uint32_t rd_num_handles;
} zx_channel_call_etc_args_t;

/* One object of zx_object_wait_many. */
typedef struct zx_wait_item {
  zx_handle_t handle;
  zx_signals_t waitfor;
  zx_signals_t pending;
} zx_wait_item_t;
#define ZX_WAIT_MANY_MAX_ITEMS ((size_t)64)

/* zx_object_wait_async: add a timestamp of the monotonic clock, or of the boot clock, to the packet;
 * wait for a signal to become set. */
#define ZX_WAIT_ASYNC_TIMESTAMP ((uint32_t)1u)
#define ZX_WAIT_ASYNC_EDGE ((uint32_t)2u)
#define ZX_WAIT_ASYNC_BOOT_TIMESTAMP ((uint32_t)4u)

#define ZX_SOCKET_STREAM ((uint32_t)0u)
#define ZX_SOCKET_DATAGRAM ((uint32_t)1u)
#define ZX_SOCKET_CREATE_MASK ((uint32_t)1u)
#define ZX_SOCKET_PEEK ((uint32_t)1u << 3)
#define ZX_SOCKET_DISPOSITION_WRITE_DISABLED ((uint32_t)1u)
#define ZX_SOCKET_DISPOSITION_WRITE_ENABLED ((uint32_t)2u)
#define ZX_SOCKET_SHUTDOWN_WRITE ((uint32_t)1u)
#define ZX_SOCKET_SHUTDOWN_READ ((uint32_t)2u)
#define ZX_SOCKET_SHUTDOWN_MASK ((uint32_t)3u)

#define ZX_FIFO_MAX_SIZE_BYTES ((size_t)4096)
#define ZX_VMO_RESIZABLE ((uint32_t)2u)

/* zx_vmo_op_range. */
#define ZX_VMO_OP_COMMIT ((uint32_t)1u)
#define ZX_VMO_OP_DECOMMIT ((uint32_t)2u)
#define ZX_VMO_OP_LOCK ((uint32_t)3u)
#define ZX_VMO_OP_UNLOCK ((uint32_t)4u)
#define ZX_VMO_OP_CACHE_SYNC ((uint32_t)6u)
#define ZX_VMO_OP_CACHE_INVALIDATE ((uint32_t)7u)
#define ZX_VMO_OP_CACHE_CLEAN ((uint32_t)8u)
#define ZX_VMO_OP_CACHE_CLEAN_INVALIDATE ((uint32_t)9u)
#define ZX_VMO_OP_ZERO ((uint32_t)10u)
#define ZX_VMO_OP_TRY_LOCK ((uint32_t)11u)
#define ZX_VMO_OP_DONT_NEED ((uint32_t)12u)
#define ZX_VMO_OP_ALWAYS_NEED ((uint32_t)13u)

/* zx_vmo_create_child. */
#define ZX_VMO_CHILD_SNAPSHOT ((uint32_t)1u << 0)
#define ZX_VMO_CHILD_RESIZABLE ((uint32_t)1u << 2)
#define ZX_VMO_CHILD_SLICE ((uint32_t)1u << 3)
#define ZX_VMO_CHILD_SNAPSHOT_AT_LEAST_ON_WRITE ((uint32_t)1u << 4)
#define ZX_VMO_CHILD_NO_WRITE ((uint32_t)1u << 5)

/* zx_vmo_set_cache_policy. */
#define ZX_CACHE_POLICY_CACHED ((uint32_t)0u)
#define ZX_CACHE_POLICY_UNCACHED ((uint32_t)1u)
#define ZX_CACHE_POLICY_UNCACHED_DEVICE ((uint32_t)2u)
#define ZX_CACHE_POLICY_WRITE_COMBINING ((uint32_t)3u)
#define ZX_CACHE_POLICY_MASK ((uint32_t)3u)

/* ---- Types of unsupported calls, which return ZX_ERR_NOT_SUPPORTED ---- */

#define ZX_TASK_TERMINATED ZX_OBJECT_SIGNAL_3
#define ZX_JOB_TERMINATED ZX_OBJECT_SIGNAL_3
#define ZX_JOB_NO_JOBS ZX_OBJECT_SIGNAL_4
#define ZX_JOB_NO_PROCESSES ZX_OBJECT_SIGNAL_5
#define ZX_PROCESS_TERMINATED ZX_OBJECT_SIGNAL_3
#define ZX_THREAD_TERMINATED ZX_OBJECT_SIGNAL_3
#define ZX_THREAD_RUNNING ZX_OBJECT_SIGNAL_4
#define ZX_THREAD_SUSPENDED ZX_OBJECT_SIGNAL_5
#define ZX_LOG_READABLE ZX_OBJECT_READABLE
#define ZX_LOG_WRITABLE ZX_OBJECT_WRITABLE
#define ZX_TIMER_SIGNALED ZX_OBJECT_SIGNAL_3
#define ZX_VMO_ZERO_CHILDREN ZX_OBJECT_SIGNAL_3
#define ZX_CLOCK_STARTED ZX_OBJECT_SIGNAL_4
#define ZX_CLOCK_UPDATED ZX_OBJECT_SIGNAL_5
#define ZX_IOB_PEER_CLOSED ZX_OBJECT_PEER_CLOSED
#define ZX_COUNTER_SIGNALED ZX_OBJECT_SIGNAL_3
#define ZX_COUNTER_POSITIVE ZX_OBJECT_SIGNAL_4
#define ZX_COUNTER_NON_POSITIVE ZX_OBJECT_SIGNAL_5
#define ZX_VIRTUAL_INTERRUPT_UNTRIGGERED ZX_OBJECT_SIGNAL_4

/* Mapping, and address spaces. */
typedef uint32_t zx_vm_option_t;
#define ZX_VM_PERM_READ ((zx_vm_option_t)1u << 0)
#define ZX_VM_PERM_WRITE ((zx_vm_option_t)1u << 1)
#define ZX_VM_PERM_EXECUTE ((zx_vm_option_t)1u << 2)
#define ZX_VM_COMPACT ((zx_vm_option_t)1u << 3)
#define ZX_VM_SPECIFIC ((zx_vm_option_t)1u << 4)
#define ZX_VM_SPECIFIC_OVERWRITE ((zx_vm_option_t)1u << 5)
#define ZX_VM_CAN_MAP_SPECIFIC ((zx_vm_option_t)1u << 6)
#define ZX_VM_CAN_MAP_READ ((zx_vm_option_t)1u << 7)
#define ZX_VM_CAN_MAP_WRITE ((zx_vm_option_t)1u << 8)
#define ZX_VM_CAN_MAP_EXECUTE ((zx_vm_option_t)1u << 9)
#define ZX_VM_MAP_RANGE ((zx_vm_option_t)1u << 10)
#define ZX_VM_REQUIRE_NON_RESIZABLE ((zx_vm_option_t)1u << 11)
#define ZX_VM_ALLOW_FAULTS ((zx_vm_option_t)1u << 12)
#define ZX_VM_OFFSET_IS_UPPER_LIMIT ((zx_vm_option_t)1u << 13)
#define ZX_VM_PERM_READ_IF_XOM_UNSUPPORTED ((zx_vm_option_t)1u << 14)
#define ZX_VM_FAULT_BEYOND_STREAM_SIZE ((zx_vm_option_t)1u << 15)
/* First bit of the binary logarithm of an alignment. */
#define ZX_VM_ALIGN_BASE 24
#define ZX_VMAR_OP_COMMIT ((uint32_t)1u)
#define ZX_VMAR_OP_DECOMMIT ((uint32_t)2u)
#define ZX_VMAR_OP_MAP_RANGE ((uint32_t)3u)
#define ZX_VMAR_OP_ZERO ((uint32_t)10u)
#define ZX_VMAR_OP_DONT_NEED ((uint32_t)12u)
#define ZX_VMAR_OP_ALWAYS_NEED ((uint32_t)13u)
#define ZX_VMAR_OP_PREFETCH ((uint32_t)14u)

#define ZX_PAGER_OP_FAIL ((uint32_t)1u)
#define ZX_PAGER_OP_DIRTY ((uint32_t)2u)
#define ZX_PAGER_OP_WRITEBACK_BEGIN ((uint32_t)3u)
#define ZX_PAGER_OP_WRITEBACK_END ((uint32_t)4u)
#define ZX_PAGER_VMO_STATS_MODIFIED ((uint32_t)1u)
#define ZX_PAGER_RESET_VMO_STATS ((uint32_t)1u)
typedef struct zx_pager_vmo_stats {
  uint32_t modified;
} zx_pager_vmo_stats_t;

#define ZX_STREAM_MODE_READ ((uint32_t)1u)
#define ZX_STREAM_MODE_WRITE ((uint32_t)2u)
#define ZX_STREAM_MODE_APPEND ((uint32_t)4u)
#define ZX_STREAM_CREATE_MASK ((uint32_t)7u)
#define ZX_STREAM_APPEND ((uint32_t)1u)
typedef uint32_t zx_stream_seek_origin_t;
#define ZX_STREAM_SEEK_ORIGIN_START ((zx_stream_seek_origin_t)0u)
#define ZX_STREAM_SEEK_ORIGIN_CURRENT ((zx_stream_seek_origin_t)1u)
#define ZX_STREAM_SEEK_ORIGIN_END ((zx_stream_seek_origin_t)2u)

#define ZX_TIMER_SLACK_CENTER ((uint32_t)0u)
#define ZX_TIMER_SLACK_EARLY ((uint32_t)1u)
#define ZX_TIMER_SLACK_LATE ((uint32_t)2u)

#define ZX_INTERRUPT_REMAP_IRQ ((uint32_t)1u)
#define ZX_INTERRUPT_MODE_DEFAULT ((uint32_t)0u << 1)
#define ZX_INTERRUPT_MODE_EDGE_LOW ((uint32_t)1u << 1)
#define ZX_INTERRUPT_MODE_EDGE_HIGH ((uint32_t)2u << 1)
#define ZX_INTERRUPT_MODE_LEVEL_LOW ((uint32_t)3u << 1)
#define ZX_INTERRUPT_MODE_LEVEL_HIGH ((uint32_t)4u << 1)
#define ZX_INTERRUPT_MODE_EDGE_BOTH ((uint32_t)5u << 1)
#define ZX_INTERRUPT_MODE_MASK ((uint32_t)0xeu)
#define ZX_INTERRUPT_VIRTUAL ((uint32_t)0x10u)
#define ZX_INTERRUPT_TIMESTAMP_MONO ((uint32_t)0x40u)
#define ZX_INTERRUPT_BIND ((uint32_t)0u)
#define ZX_INTERRUPT_UNBIND ((uint32_t)1u)
#define ZX_MSI_MODE_MSI_X ((uint32_t)1u)

#define ZX_BTI_PERM_READ ((uint32_t)1u << 0)
#define ZX_BTI_PERM_WRITE ((uint32_t)1u << 1)
#define ZX_BTI_PERM_EXECUTE ((uint32_t)1u << 2)
#define ZX_BTI_COMPRESS ((uint32_t)1u << 3)
#define ZX_BTI_CONTIGUOUS ((uint32_t)1u << 4)

#define ZX_PROCESS_SHARED ((uint32_t)1u)
#define ZX_JOB_CRITICAL_PROCESS_RETCODE_NONZERO ((uint32_t)1u)

/* A set of processors, one bit for each. */
#define ZX_CPU_SET_MAX_CPUS 512
#define ZX_CPU_SET_BITS_PER_WORD 64
typedef struct zx_cpu_set {
  uint64_t mask[ZX_CPU_SET_MAX_CPUS / ZX_CPU_SET_BITS_PER_WORD];
} zx_cpu_set_t;

/* ---- */

#define ZX_MAX_NAME_LEN ((size_t)32)

#define ZX_PAGE_SHIFT ((uint32_t)12u)
#define ZX_PAGE_SIZE ((uintptr_t)1u << ZX_PAGE_SHIFT)

/* Sizes and offsets of fields are part of the interface. */
#ifdef __cplusplus
#define UNCOPY_ZX_ASSERT(what) static_assert(what, #what)
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ >= 201112L
#define UNCOPY_ZX_ASSERT(what) _Static_assert(what, #what)
#else
/* C99 has no static assertions; compilers of later standards check them. */
#define UNCOPY_ZX_ASSERT(what) extern int uncopy_zx_assert_nothing
#endif
#define UNCOPY_ZX_AT(type, field, offset) UNCOPY_ZX_ASSERT(offsetof(type, field) == (offset))
#if UINTPTR_MAX == UINT64_MAX
UNCOPY_ZX_ASSERT(sizeof(zx_channel_iovec_t) == 16);
UNCOPY_ZX_AT(zx_channel_iovec_t, buffer, 0);
UNCOPY_ZX_AT(zx_channel_iovec_t, capacity, 8);
UNCOPY_ZX_AT(zx_channel_iovec_t, reserved, 12);
UNCOPY_ZX_ASSERT(sizeof(zx_channel_call_args_t) == 48);
UNCOPY_ZX_AT(zx_channel_call_args_t, wr_bytes, 0);
UNCOPY_ZX_AT(zx_channel_call_args_t, wr_handles, 8);
UNCOPY_ZX_AT(zx_channel_call_args_t, rd_bytes, 16);
UNCOPY_ZX_AT(zx_channel_call_args_t, rd_handles, 24);
UNCOPY_ZX_AT(zx_channel_call_args_t, wr_num_bytes, 32);
UNCOPY_ZX_AT(zx_channel_call_args_t, wr_num_handles, 36);
UNCOPY_ZX_AT(zx_channel_call_args_t, rd_num_bytes, 40);
UNCOPY_ZX_AT(zx_channel_call_args_t, rd_num_handles, 44);
UNCOPY_ZX_ASSERT(sizeof(zx_channel_call_etc_args_t) == 48);
UNCOPY_ZX_AT(zx_channel_call_etc_args_t, wr_bytes, 0);
UNCOPY_ZX_AT(zx_channel_call_etc_args_t, wr_handles, 8);
UNCOPY_ZX_AT(zx_channel_call_etc_args_t, rd_bytes, 16);
UNCOPY_ZX_AT(zx_channel_call_etc_args_t, rd_handles, 24);
UNCOPY_ZX_AT(zx_channel_call_etc_args_t, wr_num_bytes, 32);
UNCOPY_ZX_AT(zx_channel_call_etc_args_t, wr_num_handles, 36);
UNCOPY_ZX_AT(zx_channel_call_etc_args_t, rd_num_bytes, 40);
UNCOPY_ZX_AT(zx_channel_call_etc_args_t, rd_num_handles, 44);
#endif
UNCOPY_ZX_ASSERT(sizeof(zx_handle_disposition_t) == 20);
UNCOPY_ZX_AT(zx_handle_disposition_t, operation, 0);
UNCOPY_ZX_AT(zx_handle_disposition_t, handle, 4);
UNCOPY_ZX_AT(zx_handle_disposition_t, type, 8);
UNCOPY_ZX_AT(zx_handle_disposition_t, rights, 12);
UNCOPY_ZX_AT(zx_handle_disposition_t, result, 16);
UNCOPY_ZX_ASSERT(sizeof(zx_handle_info_t) == 16);
UNCOPY_ZX_AT(zx_handle_info_t, handle, 0);
UNCOPY_ZX_AT(zx_handle_info_t, type, 4);
UNCOPY_ZX_AT(zx_handle_info_t, rights, 8);
UNCOPY_ZX_AT(zx_handle_info_t, unused, 12);
UNCOPY_ZX_ASSERT(sizeof(zx_cpu_set_t) == 64);
UNCOPY_ZX_ASSERT(sizeof(zx_wait_item_t) == 12);
UNCOPY_ZX_AT(zx_wait_item_t, handle, 0);
UNCOPY_ZX_AT(zx_wait_item_t, waitfor, 4);
UNCOPY_ZX_AT(zx_wait_item_t, pending, 8);

#ifdef __cplusplus
}
#endif

/* Its functions need the types above. */
#include <zircon/time.h>

#endif
