//! Names of backups and copies, which files share nothing about on these systems: a job there claims them itself
//! (`portable/backup_claims.rs`).

/// Never made.
#[derive(Debug)]
pub(crate) enum BackupClaims {}
