/* The calls of Zircon that work on Linux. Part of uncopy-zx.
 * Licensed under MIT or Apache-2.0.
 *
 * Rules for every call:
 *
 *  - Handles belong to this process. In a child made by fork(2) without exec every call on an
 *    inherited object returns ZX_ERR_BAD_STATE, except that its handle can be closed, and that its
 *    number is valid until then.
 *  - A bad pointer returns ZX_ERR_INVALID_ARGS and never crashes, unless the thread has SIGSEGV or
 *    SIGBUS blocked or the program replaced the handlers later: see uncopy_zx_fault_mode in
 *    uncopy/zx.h. New handles that the call made are closed then.
 *  - Every handle argument is checked in this order: ZX_ERR_BAD_HANDLE if it is not valid,
 *    ZX_ERR_WRONG_TYPE if its type is another, ZX_ERR_ACCESS_DENIED without the named right. Calls
 *    that create something can return ZX_ERR_NO_MEMORY and ZX_ERR_NO_RESOURCES.
 *  - Any thread may make any call at any time. Closing a handle ends the calls that wait on it with
 *    ZX_ERR_CANCELED.
 */
#ifndef UNCOPY_ZIRCON_SYSCALLS_H_
#define UNCOPY_ZIRCON_SYSCALLS_H_

#include <zircon/compiler.h>
#include <zircon/errors.h>
#include <zircon/rights.h>
#include <zircon/syscalls/clock.h>
#include <zircon/syscalls/exception.h>
#include <zircon/syscalls/iob.h>
#include <zircon/syscalls/object.h>
#include <zircon/syscalls/port.h>
#include <zircon/syscalls/profile.h>
#include <zircon/syscalls/types.h>
#include <zircon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Channels ---- */

/* Makes both ends of a channel. Either both handles are created, or none.
 * ZX_ERR_INVALID_ARGS: options is not 0. */
zx_status_t zx_channel_create(uint32_t options, zx_handle_t* out0, zx_handle_t* out1);

/* Takes the next message. Bytes are written before handles; the caller owns the handles then. Needs
 * ZX_RIGHT_READ. actual_bytes and actual_handles may be NULL.
 *
 * ZX_ERR_NOT_SUPPORTED: options other than ZX_CHANNEL_READ_MAY_DISCARD.
 * ZX_ERR_SHOULD_WAIT: there is no message; ZX_ERR_PEER_CLOSED: the other end is closed, too.
 * ZX_ERR_BUFFER_TOO_SMALL: the message needs actual_bytes and actual_handles. It stays queued, or
 *   with ZX_CHANNEL_READ_MAY_DISCARD it is dropped and its handles are closed.
 * ZX_ERR_INVALID_ARGS: a pointer is bad. The message is lost and its handles are closed. */
zx_status_t zx_channel_read(zx_handle_t handle, uint32_t options, void* bytes,
                            zx_handle_t* handles, uint32_t num_bytes, uint32_t num_handles,
                            uint32_t* actual_bytes, uint32_t* actual_handles);

/* As zx_channel_read, and also returns type and rights of each handle. */
zx_status_t zx_channel_read_etc(zx_handle_t handle, uint32_t options, void* bytes,
                                zx_handle_info_t* handles, uint32_t num_bytes,
                                uint32_t num_handles, uint32_t* actual_bytes,
                                uint32_t* actual_handles);

/* Sends bytes and handles as one message, all of it or nothing. Needs ZX_RIGHT_WRITE. With
 * ZX_CHANNEL_WRITE_USE_IOVEC bytes is an array of num_bytes zx_channel_iovec_t, whose buffers are
 * sent one behind the other without padding. The handles are consumed on success and on every
 * failure.
 *
 * In this order:
 * ZX_ERR_INVALID_ARGS: another option.
 * ZX_ERR_OUT_OF_RANGE: more than 8192 regions; more than 65536 bytes or 64 handles.
 * ZX_ERR_INVALID_ARGS: an array or buffer cannot be read, or a region's reserved field is not 0.
 * The status of the first failing handle: ZX_ERR_BAD_HANDLE; ZX_ERR_ACCESS_DENIED without
 *   ZX_RIGHT_TRANSFER; ZX_ERR_NOT_SUPPORTED for this very endpoint (the other end may be sent).
 * ZX_ERR_PEER_CLOSED.
 * ZX_ERR_SHOULD_WAIT: the other end has 4096 messages, 16 MiB or 4096 handles unread, and
 *   ZX_CHANNEL_WRITABLE is not set. Zircon has no such limit, and ends a process that queues too
 *   much. */
zx_status_t zx_channel_write(zx_handle_t handle, uint32_t options, const void* bytes,
                             uint32_t num_bytes, const zx_handle_t* handles,
                             uint32_t num_handles);

/* As zx_channel_write, with a disposition for each handle: moved or duplicated, of a certain type,
 * with fewer rights. Every one is attempted; the first error is returned, and the result of each that
 * fails is written. Handles are consumed unless the operation is ZX_HANDLE_OP_DUPLICATE, also those
 * with an unknown operation (ZX_ERR_INVALID_ARGS).
 *
 * For each handle, in this order: ZX_ERR_BAD_HANDLE; ZX_ERR_ACCESS_DENIED without
 * ZX_RIGHT_TRANSFER; ZX_ERR_NOT_SUPPORTED for this very endpoint; ZX_ERR_WRONG_TYPE;
 * ZX_ERR_INVALID_ARGS for rights that it does not have; ZX_ERR_ACCESS_DENIED without
 * ZX_RIGHT_DUPLICATE if it is to be duplicated. */
zx_status_t zx_channel_write_etc(zx_handle_t handle, uint32_t options, const void* bytes,
                                 uint32_t num_bytes, zx_handle_disposition_t* handles,
                                 uint32_t num_handles);

/* Sends a message and waits for its answer. The call replaces the first four bytes of the message by
 * a transaction id (the caller's memory is not changed), and the answer begins with the same four
 * bytes. Needs ZX_RIGHT_READ and ZX_RIGHT_WRITE. actual_bytes and actual_handles must not be NULL. If
 * the deadline has already passed, the message is still sent. An answer that comes too late is queued
 * like any message. Handles are consumed as by zx_channel_write.
 *
 * As zx_channel_write; ZX_ERR_INVALID_ARGS for a message of fewer than four bytes;
 * ZX_ERR_NO_RESOURCES if the other end is in another process and no descriptor is left to wait with:
 *   nothing is sent; then
 * ZX_ERR_TIMED_OUT; ZX_ERR_PEER_CLOSED; ZX_ERR_CANCELED if the handle is closed, or was sent in
 *   a message and read at the other end;
 * ZX_ERR_BUFFER_TOO_SMALL: the answer does not fit, and is lost;
 * ZX_ERR_INVALID_ARGS: a pointer is bad, and the answer is lost. */
zx_status_t zx_channel_call(zx_handle_t handle, uint32_t options, zx_time_t deadline,
                            const zx_channel_call_args_t* args, uint32_t* actual_bytes,
                            uint32_t* actual_handles);

/* As zx_channel_call, with the handles of zx_channel_write_etc and zx_channel_read_etc. */
zx_status_t zx_channel_call_etc(zx_handle_t handle, uint32_t options, zx_time_t deadline,
                                zx_channel_call_etc_args_t* args, uint32_t* actual_bytes,
                                uint32_t* actual_handles);

/* ---- Handles ---- */

/* Closes a handle. Returns ZX_OK for ZX_HANDLE_INVALID. */
zx_status_t zx_handle_close(zx_handle_t handle);

/* Closes every handle; returns ZX_ERR_BAD_HANDLE if one was not valid, and still closes the others. */
zx_status_t zx_handle_close_many(const zx_handle_t* handles, size_t num_handles);

/* Makes another handle to the same object. Needs ZX_RIGHT_DUPLICATE.
 * ZX_ERR_INVALID_ARGS: rights that handle does not have. */
zx_status_t zx_handle_duplicate(zx_handle_t handle, zx_rights_t rights, zx_handle_t* out);

/* Replaces a handle by one with other rights. The old one is consumed on success and on failure.
 * ZX_ERR_INVALID_ARGS: rights that handle does not have. */
zx_status_t zx_handle_replace(zx_handle_t handle, zx_rights_t rights, zx_handle_t* out);

/* Returns ZX_OK for a valid handle, ZX_ERR_NOT_FOUND for any other number. */
zx_status_t zx_handle_check_valid(zx_handle_t handle);

/* ---- Objects ---- */

/* Returns information about an object; see zircon/syscalls/object.h. ZX_INFO_HANDLE_COUNT and ZX_INFO_SOCKET need
 * ZX_RIGHT_INSPECT. ZX_ERR_WRONG_TYPE: ZX_INFO_SOCKET of another type.
 * actual and avail may be NULL.
 * ZX_ERR_NOT_SUPPORTED: another topic. ZX_ERR_BUFFER_TOO_SMALL: the record does not fit. */
zx_status_t zx_object_get_info(zx_handle_t handle, uint32_t topic, void* buffer,
                               size_t buffer_size, size_t* actual, size_t* avail);

/* Read and set the properties of zircon/syscalls/object.h. Need ZX_RIGHT_GET_PROPERTY or
 * ZX_RIGHT_SET_PROPERTY. Longer names are cut off. ZX_ERR_NOT_SUPPORTED: another property, or the
 * name of an object that is not a VMO. ZX_ERR_WRONG_TYPE: the object's type does not have the
 * property. ZX_ERR_BUFFER_TOO_SMALL: value_size is smaller than the property; reading a name needs
 * ZX_MAX_NAME_LEN bytes. */
zx_status_t zx_object_get_property(zx_handle_t handle, uint32_t property, void* value,
                                   size_t value_size);
zx_status_t zx_object_set_property(zx_handle_t handle, uint32_t property, const void* value,
                                   size_t value_size);

/* Clears, then sets, user signals, and of events and event pairs also ZX_EVENT_SIGNALED. Needs
 * ZX_RIGHT_SIGNAL. ZX_ERR_INVALID_ARGS: other signals. */
zx_status_t zx_object_signal(zx_handle_t handle, uint32_t clear_mask, uint32_t set_mask);

/* Changes signals of the other end. Needs ZX_RIGHT_SIGNAL_PEER. ZX_ERR_PEER_CLOSED. */
zx_status_t zx_object_signal_peer(zx_handle_t handle, uint32_t clear_mask, uint32_t set_mask);

/* Waits until any of signals is set, also by another process, but for user signals of VMOs, which every
 * process has of its own. observed, which may be NULL, receives all signals that are set then, also
 * with ZX_ERR_TIMED_OUT. Needs ZX_RIGHT_WAIT. ZX_ERR_CANCELED,
 * with ZX_SIGNAL_HANDLE_CLOSED in observed: the handle was closed. */
zx_status_t zx_object_wait_one(zx_handle_t handle, zx_signals_t signals, zx_time_t deadline,
                               zx_signals_t* observed);

/* Waits for any of several objects; pending of every item receives the signals that are set then.
 * Without items it sleeps until the deadline and returns ZX_ERR_TIMED_OUT. ZX_ERR_OUT_OF_RANGE: more than ZX_WAIT_MANY_MAX_ITEMS. */
zx_status_t zx_object_wait_many(zx_wait_item_t* items, size_t num_items, zx_time_t deadline);

/* Has port receive one packet when any of signals is set: at once if one is already set, except with
 * ZX_WAIT_ASYNC_EDGE. Of several waits on one object the newest gets its packet first. The wait ends
 * when handle is closed. Needs ZX_RIGHT_WAIT, and ZX_RIGHT_WRITE of port.
 * ZX_ERR_INVALID_ARGS: another option, or two timestamps. */
zx_status_t zx_object_wait_async(zx_handle_t handle, zx_handle_t port, uint64_t key,
                                 zx_signals_t signals, uint32_t options);

/* ---- Ports ---- */

/* Makes a port. ZX_ERR_INVALID_ARGS: an option other than ZX_PORT_BIND_TO_INTERRUPT, which changes
 * nothing here. */
zx_status_t zx_port_create(uint32_t options, zx_handle_t* out);

/* Queues a packet of the caller's; its type becomes ZX_PKT_TYPE_USER. Needs ZX_RIGHT_WRITE.
 * ZX_ERR_SHOULD_WAIT: 16384 of them are queued. */
zx_status_t zx_port_queue(zx_handle_t handle, const zx_port_packet_t* packet);

/* Takes the oldest packet. Needs ZX_RIGHT_READ. ZX_ERR_TIMED_OUT, ZX_ERR_CANCELED.
 * ZX_ERR_INVALID_ARGS: packet is bad, and the packet is lost. */
zx_status_t zx_port_wait(zx_handle_t handle, zx_time_t deadline, zx_port_packet_t* packet);

/* Cancels the waits that zx_object_wait_async started with source and key, and removes their packets.
 * Needs ZX_RIGHT_WRITE. ZX_ERR_NOT_FOUND: there are none. */
zx_status_t zx_port_cancel(zx_handle_t handle, zx_handle_t source, uint64_t key);

/* ---- Events, fifos, sockets, memory ---- */

/* ZX_ERR_INVALID_ARGS: options is not 0. */
zx_status_t zx_event_create(uint32_t options, zx_handle_t* out);

/* ZX_ERR_NOT_SUPPORTED: options is not 0. */
zx_status_t zx_eventpair_create(uint32_t options, zx_handle_t* out0, zx_handle_t* out1);

/* Makes a queue of elem_count elements of elem_size bytes in each direction. ZX_ERR_OUT_OF_RANGE:
 * options is not 0, one of the numbers is 0, or their product is above ZX_FIFO_MAX_SIZE_BYTES. */
zx_status_t zx_fifo_create(size_t elem_count, size_t elem_size, uint32_t options,
                           zx_handle_t* out0, zx_handle_t* out1);

/* Read as many whole elements as there are, or write as many as there is room for; actual_count may be
 * NULL. Need ZX_RIGHT_READ or ZX_RIGHT_WRITE. ZX_ERR_OUT_OF_RANGE: another elem_size, or count is 0.
 * ZX_ERR_SHOULD_WAIT, ZX_ERR_PEER_CLOSED. ZX_ERR_INVALID_ARGS: a pointer is bad; elements that were
 * read are lost then. */
zx_status_t zx_fifo_read(zx_handle_t handle, size_t elem_size, void* data, size_t count,
                         size_t* actual_count);
zx_status_t zx_fifo_write(zx_handle_t handle, size_t elem_size, const void* data, size_t count,
                          size_t* actual_count);

/* Makes a stream or datagram socket with 256 KiB in each direction.
 * ZX_ERR_INVALID_ARGS: options is neither ZX_SOCKET_STREAM nor ZX_SOCKET_DATAGRAM. */
zx_status_t zx_socket_create(uint32_t options, zx_handle_t* out0, zx_handle_t* out1);

/* Writes bytes; to a stream as many as there is room for. Needs ZX_RIGHT_WRITE; actual may be NULL.
 * ZX_ERR_INVALID_ARGS: options is not 0, or the datagram is empty. ZX_ERR_OUT_OF_RANGE: a datagram
 * above 64 KiB. ZX_ERR_BAD_STATE: writing is disabled. ZX_ERR_PEER_CLOSED, ZX_ERR_SHOULD_WAIT. */
zx_status_t zx_socket_write(zx_handle_t handle, uint32_t options, const void* buffer,
                            size_t buffer_size, size_t* actual);

/* Reads bytes, or one datagram; the part of a datagram that does not fit is lost. With ZX_SOCKET_PEEK
 * nothing is removed. A read of no bytes removes nothing. Needs ZX_RIGHT_READ; actual may be NULL.
 * ZX_ERR_INVALID_ARGS: another option, or a bad pointer; in that case the bytes are lost.
 * ZX_ERR_BAD_STATE: there is nothing to read and the other end disabled its writing. ZX_ERR_PEER_CLOSED,
 * ZX_ERR_SHOULD_WAIT. */
zx_status_t zx_socket_read(zx_handle_t handle, uint32_t options, void* buffer,
                           size_t buffer_size, size_t* actual);

/* Disables writing at this end, with ZX_SOCKET_DISPOSITION_WRITE_DISABLED. Needs
 * ZX_RIGHT_MANAGE_SOCKET. ZX_ERR_NOT_SUPPORTED: enabling it again, or changing the other end. */
zx_status_t zx_socket_set_disposition(zx_handle_t handle, uint32_t disposition,
                                      uint32_t disposition_peer);

/* Does the same in the older form, with ZX_SOCKET_SHUTDOWN_WRITE. ZX_ERR_INVALID_ARGS: options is 0 or has
 * other bits. ZX_ERR_NOT_SUPPORTED: ZX_SOCKET_SHUTDOWN_READ. */
zx_status_t zx_socket_shutdown(zx_handle_t handle, uint32_t options);

/* Makes memory of size zero bytes, rounded up to pages of 4096: a memfd. With ZX_VMO_RESIZABLE its
 * handle has ZX_RIGHT_RESIZE too. ZX_ERR_INVALID_ARGS: another option. ZX_ERR_OUT_OF_RANGE: too
 * large. */
zx_status_t zx_vmo_create(uint64_t size, uint32_t options, zx_handle_t* out);

/* Copy between memory and the caller's buffer. Need ZX_RIGHT_READ or ZX_RIGHT_WRITE.
 * ZX_ERR_OUT_OF_RANGE: beyond the end. After ZX_ERR_INVALID_ARGS a part may have been copied. */
zx_status_t zx_vmo_read(zx_handle_t handle, void* buffer, uint64_t offset, size_t buffer_size);
zx_status_t zx_vmo_write(zx_handle_t handle, const void* buffer, uint64_t offset,
                         size_t buffer_size);
zx_status_t zx_vmo_get_size(zx_handle_t handle, uint64_t* size);
/* Changes the size, rounded up to pages, for all handles to the memory, and the stream size, to size
 * itself; bytes from there on are zero. Needs ZX_RIGHT_WRITE and ZX_RIGHT_RESIZE.
 * ZX_ERR_OUT_OF_RANGE: too large. ZX_ERR_ACCESS_DENIED: it is sealed. */
zx_status_t zx_vmo_set_size(zx_handle_t handle, uint64_t size);

/* Get and set the stream size, a number that the program defines: at first the size given to
 * zx_vmo_create or zx_vmo_set_size, and never more than the size. Each process has its own; in a process that receives
 * the VMO it starts as the size. Setting needs ZX_RIGHT_WRITE. ZX_ERR_OUT_OF_RANGE: more than the
 * size. */
zx_status_t zx_vmo_get_stream_size(zx_handle_t handle, uint64_t* size);
zx_status_t zx_vmo_set_stream_size(zx_handle_t handle, uint64_t size);

/* Performs an operation on a range. buffer and buffer_size are not used.
 * ZX_VMO_OP_COMMIT allocates the memory of the range; ZX_VMO_OP_DECOMMIT frees whole pages, which are
 * zero then; ZX_VMO_OP_ZERO zeroes the range. These need ZX_RIGHT_WRITE.
 * ZX_VMO_OP_CACHE_SYNC, _INVALIDATE, _CLEAN and _CLEAN_INVALIDATE need ZX_RIGHT_READ and do nothing,
 * because the memory is coherent. ZX_VMO_OP_DONT_NEED and _ALWAYS_NEED are accepted and ignored.
 * ZX_ERR_OUT_OF_RANGE: beyond the end. ZX_ERR_INVALID_ARGS: another op, not whole pages for an op
 * that needs them, or no bytes for a ZX_VMO_OP_CACHE_. ZX_ERR_NOT_SUPPORTED: ZX_VMO_OP_LOCK, _TRY_LOCK and _UNLOCK. ZX_ERR_NO_MEMORY. */
zx_status_t zx_vmo_op_range(zx_handle_t handle, uint32_t op, uint64_t offset, uint64_t size,
                            void* buffer, size_t buffer_size);

/* Accepts ZX_CACHE_POLICY_CACHED, the policy of all memory. Needs ZX_RIGHT_MAP. ZX_ERR_NOT_SUPPORTED:
 * another policy; ZX_ERR_INVALID_ARGS: an unknown one. */
zx_status_t zx_vmo_set_cache_policy(zx_handle_t handle, uint32_t cache_policy);

/* Maps len bytes of a VMO, rounded up to pages, at an address of the kernel's choice. handle is
 * zx_vmar_root_self() (<zircon/process.h>), vmar_offset 0. options: ZX_VM_PERM_READ, with
 * ZX_VM_PERM_WRITE, or neither; ZX_VM_MAP_RANGE maps all pages now; ZX_VM_ALLOW_FAULTS,
 * ZX_VM_REQUIRE_NON_RESIZABLE. The VMO needs ZX_RIGHT_MAP and the rights to read and write. The mapping
 * keeps the memory. An access to a page behind the end of the memory raises SIGBUS.
 * ZX_ERR_BAD_HANDLE, ZX_ERR_WRONG_TYPE, ZX_ERR_ACCESS_DENIED: also to write to sealed memory, and to
 *   execute.
 * ZX_ERR_INVALID_ARGS: len is 0; vmo_offset is not one of a page; ZX_VM_PERM_WRITE alone; mapped_addr
 *   is bad. ZX_ERR_OUT_OF_RANGE: vmo_offset and len are too large.
 * ZX_ERR_NOT_SUPPORTED: the size of the VMO can change, without ZX_VM_ALLOW_FAULTS or with
 *   ZX_VM_REQUIRE_NON_RESIZABLE; ZX_VM_SPECIFIC, an alignment.
 * ZX_ERR_BUFFER_TOO_SMALL: it ends behind the VMO, without ZX_VM_ALLOW_FAULTS. ZX_ERR_NO_MEMORY. */
zx_status_t zx_vmar_map(zx_handle_t handle, zx_vm_option_t options, size_t vmar_offset,
                        zx_handle_t vmo, uint64_t vmo_offset, size_t len, zx_vaddr_t* mapped_addr);

/* Unmaps the pages of a range that zx_vmar_map mapped, and no others.
 * ZX_ERR_NOT_FOUND: there are none. ZX_ERR_INVALID_ARGS: addr is not one of a page, or len is 0. */
zx_status_t zx_vmar_unmap(zx_handle_t handle, zx_vaddr_t addr, size_t len);

/* ---- Unsupported calls ----
 * These return ZX_ERR_NOT_SUPPORTED for all arguments. They exist so that programs that use them
 * compile and link. Handles are consumed if Zircon consumes them. */

zx_status_t zx_object_get_child(zx_handle_t handle, uint64_t koid, zx_rights_t rights,
                                zx_handle_t* out);
zx_status_t zx_object_set_profile(zx_handle_t handle, zx_handle_t profile, uint32_t options);
zx_status_t zx_vmo_create_child(zx_handle_t handle, uint32_t options, uint64_t offset, uint64_t size,
                                zx_handle_t* out);
zx_status_t zx_vmo_create_contiguous(zx_handle_t bti, size_t size, uint32_t alignment_log2,
                                     zx_handle_t* out);
zx_status_t zx_vmo_create_physical(zx_handle_t resource, zx_paddr_t paddr, size_t size,
                                   zx_handle_t* out);
/* Consumes handle. */
zx_status_t zx_vmo_replace_as_executable(zx_handle_t handle, zx_handle_t resource, zx_handle_t* out);
zx_status_t zx_vmo_transfer_data(zx_handle_t handle, uint32_t options, uint64_t offset,
                                 uint64_t length, zx_handle_t src_vmo, uint64_t src_offset);
zx_status_t zx_resource_create(zx_handle_t parent, uint32_t options, uint64_t base, size_t size,
                               const char* name, size_t name_size, zx_handle_t* out);

/* Jobs, processes, threads, exceptions. */
zx_status_t zx_job_create(zx_handle_t parent_job, uint32_t options, zx_handle_t* out);
zx_status_t zx_job_set_critical(zx_handle_t job, uint32_t options, zx_handle_t process);
zx_status_t zx_job_set_policy(zx_handle_t handle, uint32_t options, uint32_t topic,
                              const void* policy, uint32_t policy_size);
zx_status_t zx_process_create(zx_handle_t job, const char* name, size_t name_size, uint32_t options,
                              zx_handle_t* proc_handle, zx_handle_t* vmar_handle);
/* Consumes arg1. */
zx_status_t zx_process_start(zx_handle_t handle, zx_handle_t thread, zx_vaddr_t entry,
                             zx_vaddr_t stack, zx_handle_t arg1, uintptr_t arg2);
zx_status_t zx_process_read_memory(zx_handle_t handle, zx_vaddr_t vaddr, void* buffer,
                                   size_t buffer_size, size_t* actual);
zx_status_t zx_process_write_memory(zx_handle_t handle, zx_vaddr_t vaddr, const void* buffer,
                                    size_t buffer_size, size_t* actual);
zx_status_t zx_thread_create(zx_handle_t process, const char* name, size_t name_size,
                             uint32_t options, zx_handle_t* out);
zx_status_t zx_thread_start(zx_handle_t handle, zx_vaddr_t thread_entry, zx_vaddr_t stack,
                            uintptr_t arg1, uintptr_t arg2);
zx_status_t zx_thread_start_regs(zx_handle_t handle, uint64_t pc, uint64_t sp, uint64_t arg1,
                                 uint64_t arg2, uint64_t tp, uint64_t abi_reg);
zx_status_t zx_thread_read_state(zx_handle_t handle, uint32_t kind, void* buffer,
                                 size_t buffer_size);
zx_status_t zx_thread_write_state(zx_handle_t handle, uint32_t kind, const void* buffer,
                                  size_t buffer_size);
zx_status_t zx_thread_raise_exception(uint32_t options, uint32_t type,
                                      const zx_exception_context_t* context);
zx_status_t zx_task_kill(zx_handle_t handle);
zx_status_t zx_task_suspend(zx_handle_t handle, zx_handle_t* token);
zx_status_t zx_task_suspend_token(zx_handle_t handle, zx_handle_t* token);
zx_status_t zx_task_create_exception_channel(zx_handle_t handle, uint32_t options,
                                             zx_handle_t* out);
zx_status_t zx_exception_get_thread(zx_handle_t handle, zx_handle_t* out);
zx_status_t zx_exception_get_process(zx_handle_t handle, zx_handle_t* out);

/* Address spaces. */
zx_status_t zx_vmar_allocate(zx_handle_t parent_vmar, zx_vm_option_t options, size_t offset,
                             size_t size, zx_handle_t* child_vmar, zx_vaddr_t* child_addr);
zx_status_t zx_vmar_destroy(zx_handle_t handle);
zx_status_t zx_vmar_map_clock(zx_handle_t handle, zx_vm_option_t options, size_t vmar_offset,
                              zx_handle_t clock, size_t len, zx_vaddr_t* mapped_addr);
zx_status_t zx_vmar_map_iob(zx_handle_t handle, zx_vm_option_t options, size_t vmar_offset,
                            zx_handle_t ep, uint32_t region_index, uint64_t region_offset,
                            size_t region_length, zx_vaddr_t* mapped_addr);
zx_status_t zx_vmar_op_range(zx_handle_t handle, uint32_t op, zx_vaddr_t address, size_t size,
                             void* buffer, size_t buffer_size);
zx_status_t zx_vmar_protect(zx_handle_t handle, zx_vm_option_t options, zx_vaddr_t addr,
                            size_t len);

/* Clock objects, timers, counters. */
zx_status_t zx_clock_create(uint64_t options, const void* args, zx_handle_t* out);
zx_status_t zx_clock_get_details(zx_handle_t handle, uint64_t options, void* details);
zx_status_t zx_clock_get_details_mapped(const void* clock_addr, uint64_t options, void* details);
zx_status_t zx_clock_read(zx_handle_t handle, zx_time_t* now);
zx_status_t zx_clock_read_mapped(const void* clock_addr, zx_time_t* now);
zx_status_t zx_clock_update(zx_handle_t handle, uint64_t options, const void* args);
zx_status_t zx_timer_create(uint32_t options, zx_clock_t clock_id, zx_handle_t* out);
zx_status_t zx_timer_set(zx_handle_t handle, zx_time_t deadline, zx_duration_t slack);
zx_status_t zx_timer_cancel(zx_handle_t handle);
zx_status_t zx_counter_create(uint32_t options, zx_handle_t* out);
zx_status_t zx_counter_add(zx_handle_t handle, int64_t value);
zx_status_t zx_counter_read(zx_handle_t handle, int64_t* value);
zx_status_t zx_counter_write(zx_handle_t handle, int64_t value);

/* Streams, I/O buffers, logs, profiles. */
zx_status_t zx_stream_create(uint32_t options, zx_handle_t vmo, zx_off_t seek,
                             zx_handle_t* out_stream);
zx_status_t zx_stream_writev(zx_handle_t handle, uint32_t options, const zx_iovec_t* vectors,
                             size_t num_vectors, size_t* actual);
zx_status_t zx_stream_writev_at(zx_handle_t handle, uint32_t options, zx_off_t offset,
                                const zx_iovec_t* vectors, size_t num_vectors, size_t* actual);
zx_status_t zx_stream_readv(zx_handle_t handle, uint32_t options, zx_iovec_t* vectors,
                            size_t num_vectors, size_t* actual);
zx_status_t zx_stream_readv_at(zx_handle_t handle, uint32_t options, zx_off_t offset,
                               zx_iovec_t* vectors, size_t num_vectors, size_t* actual);
zx_status_t zx_stream_seek(zx_handle_t handle, zx_stream_seek_origin_t whence, int64_t offset,
                           zx_off_t* out_seek);
zx_status_t zx_iob_create(uint64_t options, const void* regions, size_t num_regions,
                          zx_handle_t* ep0_out, zx_handle_t* ep1_out);
zx_status_t zx_iob_writev(zx_handle_t handle, zx_iob_write_options_t options, uint32_t region_index,
                          const zx_iovec_t* vectors, size_t num_vectors);
zx_status_t zx_debuglog_create(zx_handle_t resource, uint32_t options, zx_handle_t* out);
zx_status_t zx_debuglog_read(zx_handle_t handle, uint32_t options, void* buffer,
                             size_t buffer_size);
zx_status_t zx_debuglog_write(zx_handle_t handle, uint32_t options, const void* buffer,
                              size_t buffer_size);
zx_status_t zx_profile_create(zx_handle_t profile_rsrc, uint32_t options,
                              const zx_profile_info_t* profile, zx_handle_t* out);

/* Pagers. */
zx_status_t zx_pager_create(uint32_t options, zx_handle_t* out);
zx_status_t zx_pager_create_vmo(zx_handle_t pager, uint32_t options, zx_handle_t port, uint64_t key,
                                uint64_t size, zx_handle_t* out);
zx_status_t zx_pager_detach_vmo(zx_handle_t pager, zx_handle_t vmo);
zx_status_t zx_pager_supply_pages(zx_handle_t pager, zx_handle_t pager_vmo, uint64_t offset,
                                  uint64_t length, zx_handle_t aux_vmo, uint64_t aux_offset);
zx_status_t zx_pager_op_range(zx_handle_t pager, uint32_t op, zx_handle_t pager_vmo,
                              uint64_t offset, uint64_t length, uint64_t data);
zx_status_t zx_pager_query_vmo_stats(zx_handle_t pager, zx_handle_t pager_vmo, uint32_t options,
                                     void* buffer, size_t buffer_size);

/* Interrupts, device memory, guests. */
zx_status_t zx_interrupt_create(zx_handle_t src_obj, uint32_t src_num, uint32_t options,
                                zx_handle_t* out_handle);
zx_status_t zx_interrupt_bind(zx_handle_t handle, zx_handle_t port_handle, uint64_t key,
                              uint32_t options);
zx_status_t zx_interrupt_wait(zx_handle_t handle, zx_time_t* out_timestamp);
zx_status_t zx_interrupt_ack(zx_handle_t handle);
zx_status_t zx_interrupt_trigger(zx_handle_t handle, uint32_t options, zx_time_t timestamp);
zx_status_t zx_interrupt_destroy(zx_handle_t handle);
zx_status_t zx_msi_allocate(zx_handle_t handle, uint32_t count, zx_handle_t* out_allocation);
zx_status_t zx_msi_create(zx_handle_t handle, uint32_t options, uint32_t msi_id, zx_handle_t vmo,
                          size_t vmo_offset, zx_handle_t* out_interrupt);
zx_status_t zx_iommu_create(zx_handle_t resource, uint32_t type, const void* desc, size_t desc_size,
                            zx_handle_t* out);
zx_status_t zx_bti_create(zx_handle_t iommu, uint32_t options, uint64_t bti_id, zx_handle_t* out);
zx_status_t zx_bti_pin(zx_handle_t handle, uint32_t options, zx_handle_t vmo, uint64_t offset,
                       uint64_t size, zx_paddr_t* addrs, size_t num_addrs, zx_handle_t* pmt);
zx_status_t zx_bti_release_quarantine(zx_handle_t handle);
/* Consumes handle. */
zx_status_t zx_pmt_unpin(zx_handle_t handle);
zx_status_t zx_guest_create(zx_handle_t resource, uint32_t options, zx_handle_t* guest_handle,
                            zx_handle_t* vmar_handle);
zx_status_t zx_guest_set_trap(zx_handle_t handle, uint32_t kind, zx_vaddr_t addr, size_t size,
                              zx_handle_t port_handle, uint64_t key);
zx_status_t zx_vcpu_create(zx_handle_t guest, uint32_t options, zx_vaddr_t entry, zx_handle_t* out);
zx_status_t zx_vcpu_enter(zx_handle_t handle, zx_port_packet_t* packet);
zx_status_t zx_vcpu_kick(zx_handle_t handle);
zx_status_t zx_vcpu_interrupt(zx_handle_t handle, uint32_t vector);
zx_status_t zx_vcpu_read_state(zx_handle_t handle, uint32_t kind, void* buffer, size_t buffer_size);
zx_status_t zx_vcpu_write_state(zx_handle_t handle, uint32_t kind, const void* buffer,
                                size_t buffer_size);

/* ---- Time and system ---- */

/* CLOCK_MONOTONIC and CLOCK_BOOTTIME. */
zx_time_t zx_clock_get_monotonic(void);
zx_time_t zx_clock_get_boot(void);
/* Returns the time nanoseconds from now, saturated at the ends of the range. */
zx_time_t zx_deadline_after(zx_duration_t nanoseconds);
/* Sleeps until deadline. Always ZX_OK. */
zx_status_t zx_nanosleep(zx_time_t deadline);
/* Ticks are nanoseconds, of CLOCK_MONOTONIC and of CLOCK_BOOTTIME. */
zx_ticks_t zx_ticks_get(void);
zx_ticks_t zx_ticks_get_boot(void);
zx_ticks_t zx_ticks_per_second(void);
uint32_t zx_system_get_page_size(void);

#ifdef __cplusplus
}
#endif

#endif
