//! A million operations leak no descriptor and no memory. A separate program, because descriptors and
//! memory of other tests would count.

use std::io::IoSlice;

use uncopy::channel::{
    AsyncOptions, BatchRegion, Channel, Deadline, Descriptor, Event, Handle, Object, Port, Signals,
    Vmo,
};

use crate::alone;

fn past() -> Deadline {
    Deadline::after(std::time::Duration::ZERO)
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Returns the resident size in bytes (`proc_pid_statm(5)`).
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Performs some of every operation.
fn round(n: usize, near: &Channel, far: &Channel, port: &Port) {
    let body = [n.to_le_bytes()[0]; 300];
    near.write(&[IoSlice::new(&body), IoSlice::new(&body[..n % 200])], vec![]).unwrap();
    far.wait_one(Signals::READABLE, Deadline::INFINITE).unwrap();
    drop(far.read().unwrap());
    far.wait_async(port, 1, Signals::READABLE, AsyncOptions::empty()).unwrap();
    near.write(&[], vec![Event::new().into()]).unwrap();
    port.wait(past()).unwrap();
    assert_eq!(far.read_into(&mut [], &mut [None]).unwrap().handles, 1);
    assert!(near.call(&[IoSlice::new(b"0000")], vec![], past()).is_err());
    drop(far.read().unwrap());
    let region = |message| BatchRegion { bytes: &body, message, handles: 0 };
    near.write_batch(&[region(0), region(1)], &mut vec![]).unwrap();
    (0..2).for_each(|_| drop(far.read().unwrap()));
    if n.is_multiple_of(16) {
        let (inner_near, inner_far) = Channel::pair();
        inner_near.write(&[], vec![inner_far.into()]).unwrap();
        let file = Descriptor::from(std::os::fd::OwnedFd::from(std::io::pipe().unwrap().0));
        let memory = Vmo::new(1).unwrap();
        let twin = Handle::from(memory.duplicate(None).unwrap());
        let fd = far.signal_fd(Signals::READABLE).unwrap();
        near.write(&[], vec![inner_near.into(), file.into(), memory.into(), twin]).unwrap();
        drop(fd);
        drop(far.read().unwrap());
    }
}

/// More than ten operations a round. A leak of 64 bytes in each would be more than 6 MB.
#[test]
fn a_million_operations_leak_nothing() {
    const ROUNDS: usize = 100_000;
    let _alone = alone();
    let (near, far) = Channel::pair();
    let port = Port::new();
    (0..1000).for_each(|n| round(n, &near, &far, &port));
    let (fds, memory) = (descriptors(), resident());
    (0..ROUNDS).for_each(|n| round(n, &near, &far, &port));
    let (fds_after, memory_after) = (descriptors(), resident());
    assert_eq!(fds_after, fds);
    assert!(memory_after <= memory + (2 << 20), "{memory} bytes became {memory_after}");
}

/// One thread writes, another reads: buffers return to the writer.
#[test]
fn buffers_return_to_the_writer() {
    const MESSAGES: usize = 100_000;
    let _alone = alone();
    let (near, far) = Channel::pair();
    let before = resident();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..MESSAGES {
                near.wait_one(Signals::WRITABLE, Deadline::INFINITE).unwrap();
                near.write(&[IoSlice::new(&[1; 4000])], vec![]).unwrap();
            }
        });
        for _ in 0..MESSAGES {
            far.wait_one(Signals::READABLE, Deadline::INFINITE).unwrap();
            assert_eq!(far.read().unwrap().len(), 4000);
        }
    });
    // At most a full queue of buffers, not all.
    assert!(resident() <= before + (24 << 20));
}
