//! A handle of which everything is known.

use uncopy_fidl::{Handle, ObjectType, Rights};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestHandle {
    pub(crate) id: usize,
    pub(crate) object_type: ObjectType,
    pub(crate) rights: Rights,
}

impl Handle for TestHandle {
    fn object_type(&self) -> ObjectType {
        self.object_type
    }

    fn rights(&self) -> Rights {
        self.rights
    }

    fn narrowed(self, rights: Rights) -> Option<TestHandle> {
        Some(TestHandle { rights, ..self })
    }
}
