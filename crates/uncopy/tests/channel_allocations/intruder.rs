//! Resources that a peer can make this process hold.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use uncopy::channel::{Channel, Object, Signals};

use crate::alone;
use crate::channel_allocations::descriptors;

/// Sends a message with one endpoint that consists of as many descriptors as the kernel allows.
fn send_endpoint(socket: &OwnedFd, part: &OwnedFd) -> rustix::io::Result<usize> {
    let mut packet = vec![0xc1, 0, 1, 0, 0, 0, 0, 0];
    packet.extend([[4, 253, 0, 0], [0xff; 4], [0; 4], [0; 4]].concat());
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let parts = [part.as_fd(); 253];
    assert!(control.push(SendAncillaryMessage::ScmRights(&parts)));
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    rustix::net::sendmsg(socket, &[IoSlice::new(&packet)], &mut control, flags)
}

#[test]
fn endpoints_of_many_descriptors_count_their_descriptors() {
    let _alone = alone();
    let (near, far) = Channel::pair();
    let socket = near.into_fd().unwrap();
    let (part, _) = Channel::pair();
    let part = part.into_fd().unwrap();
    let before = descriptors();
    // At most 253 descriptors each: in total more than a process may have.
    let sent = (0..20).take_while(|_| send_endpoint(&socket, &part).is_ok()).count();
    assert!(sent > 1, "{sent}");
    assert_eq!(far.signals(), Signals::READABLE | Signals::WRITABLE);
    assert_eq!(descriptors(), before + 253, "one message, and no other while it is there");
    for _ in 0..sent {
        assert_eq!(far.read().unwrap().handles().len(), 1);
    }
    assert_eq!(descriptors(), before);
}
