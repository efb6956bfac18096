//! A handle with known type and rights.

use uncopy_fidl::{CodecHandle, HandleRights, ObjectType};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TestHandle {
    pub(crate) id: usize,
    pub(crate) object_type: ObjectType,
    pub(crate) rights: HandleRights,
}

impl CodecHandle for TestHandle {
    fn object_type(&self) -> ObjectType {
        self.object_type
    }

    fn rights(&self) -> HandleRights {
        self.rights
    }

    fn narrowed(self, rights: HandleRights) -> Option<TestHandle> {
        Some(TestHandle { rights, ..self })
    }
}
