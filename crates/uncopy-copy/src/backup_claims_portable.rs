//! Names of backups and copies, which nothing claims on these systems.

/// Never made.
#[derive(Debug)]
pub(crate) enum BackupClaims {}
