//! Calls: a message and its answer.

use uncopy_channel::{Channel, Handle, MessageBuf, Rights, Status};

use super::channel::{describe, hand_out};
use super::clock::deadline_at;
use super::message::{Message, Sent};
use crate::abi::{ZX_CHANNEL_WRITE_USE_IOVEC, zx_channel_call_args_t, zx_handle_t, zx_time_t};
use crate::sys::boundary::exported;
use crate::sys::memory::{In, Out, Plain};
use crate::table;

exported! {
    /// Sends a message and waits for its answer.
    fn zx_channel_call(
        handle: zx_handle_t,
        options: u32,
        deadline: zx_time_t,
        args: In<zx_channel_call_args_t>,
        actual_bytes: Out<u32>,
        actual_handles: Out<u32>,
    ) {
        let args = args.read()?;
        let sent = Sent::moved(In::at(args.wr_handles), args.wr_num_handles);
        let call = Call { args, sent, actual_bytes, actual_handles };
        call.perform(handle, options, deadline, |value, _| value)
    }

    /// Sends a message with a disposition for each handle, and waits for its answer.
    fn zx_channel_call_etc(
        handle: zx_handle_t,
        options: u32,
        deadline: zx_time_t,
        args: In<zx_channel_call_args_t>,
        actual_bytes: Out<u32>,
        actual_handles: Out<u32>,
    ) {
        let args = args.read()?;
        let sent = Sent::disposed(args.dispositions(), args.wr_num_handles);
        let call = Call { args, sent, actual_bytes, actual_handles };
        call.perform(handle, options, deadline, describe)
    }
}

struct Call {
    args: zx_channel_call_args_t,
    sent: Sent,
    actual_bytes: Out<u32>,
    actual_handles: Out<u32>,
}

impl Call {
    fn perform<T: Plain>(
        &self,
        handle: zx_handle_t,
        options: u32,
        deadline: zx_time_t,
        describe: impl Fn(zx_handle_t, &Handle) -> T,
    ) -> Result<(), Status> {
        let reply = self.send_and_wait(handle, options, deadline);
        let reply = reply.inspect_err(|_| self.sent.consume())?;
        let args = &self.args;
        let (bytes, handles) = (reply.len(), reply.handles().len());
        if bytes > args.rd_num_bytes as usize || handles > args.rd_num_handles as usize {
            return Err(Status::BufferTooSmall { bytes, handles });
        }
        // Required, unlike those of a read. At most 64 KiB and 64 handles.
        self.actual_bytes.write(bytes as u32)?;
        self.actual_handles.write(handles as u32)?;
        let write = |bytes: &[u8]| Ok(args.reply_bytes().write_all(bytes)?);
        hand_out(reply, write, args.reply_handles(), describe)
    }

    fn send_and_wait(
        &self,
        handle: zx_handle_t,
        options: u32,
        deadline: zx_time_t,
    ) -> Result<MessageBuf, Status> {
        if options & !ZX_CHANNEL_WRITE_USE_IOVEC != 0 {
            return Err(Status::InvalidArgs);
        }
        let lease = table::lease(handle)?;
        let channel = lease.object::<Channel>(Rights::IO)?;
        let (bytes, count) = (In::at(self.args.wr_bytes), self.args.wr_num_bytes);
        let deadline = deadline_at(deadline);
        Message::with(bytes, count, options, self.sent.count(), |message| {
            let Message { regions, total_bytes } = message;
            if self.sent.count() == 0 {
                return channel.call_etc_regions(total_bytes, regions, &mut [], deadline);
            }
            self.sent.send(|dispositions| {
                channel.call_etc_regions(total_bytes, regions, dispositions, deadline)
            })
        })
    }
}
