//! File descriptors as handles.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::Status;
use crate::identity::{Kind, Koid};
use crate::rights::{Grant, Rights};
use crate::source::Source;
use crate::transport::parcel::Parts;
use uncopy_os::file;

/// An open file of any type. It has no signals: poll the descriptor itself.
#[derive(Debug)]
pub struct Descriptor {
    fd: OwnedFd,
    koid: Koid,
    grant: Grant,
}

impl From<OwnedFd> for Descriptor {
    fn from(fd: OwnedFd) -> Descriptor {
        Descriptor { fd, koid: Koid::next(), grant: Grant::new(Rights::DESCRIPTOR) }
    }
}

impl Descriptor {
    /// Makes a handle of what another process sent.
    pub(crate) fn arrive(parts: Parts, rights: Rights) -> Option<Descriptor> {
        let [fd] = <[OwnedFd; 1]>::try_from(parts.fds).ok()?;
        Some(Descriptor { fd, koid: Koid::next(), grant: Grant::new(rights) })
    }
}

impl From<Descriptor> for OwnedFd {
    fn from(descriptor: Descriptor) -> OwnedFd {
        descriptor.fd
    }
}

impl AsFd for Descriptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Source for Descriptor {
    fn grant(&self) -> &Grant {
        &self.grant
    }

    fn grant_mut(&mut self) -> &mut Grant {
        &mut self.grant
    }

    fn object_kind(&self) -> Kind {
        Kind::Descriptor
    }

    fn koids(&self) -> (Koid, Option<Koid>) {
        (self.koid, None)
    }

    fn reissue(&self, grant: Grant) -> Result<Descriptor, Status> {
        let fd = file::duplicate(&self.fd)?;
        Ok(Descriptor { fd, koid: self.koid, grant })
    }
}
