//! Types with handles, and properties for any bytes and any number of handles.

use std::cell::RefCell;
use std::rc::Rc;

use uncopy_fidl::{
    CodecHandle, Departing, Fidl, FromView, HandleRights, Handles, ObjectType, OwnedHandle, Rule,
    Unknown, decode_owned, decode_with_handles, encode, take_handles,
};

/// A handle that records when it is closed.
#[derive(Debug)]
pub(crate) struct Recorded {
    place: usize,
    closed: Rc<RefCell<Vec<u32>>>,
}

impl Recorded {
    /// Index among the handles that were made together.
    pub(crate) fn place(&self) -> usize {
        self.place
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        self.closed.borrow_mut()[self.place] += 1;
    }
}

impl CodecHandle for Recorded {
    fn object_type(&self) -> ObjectType {
        ObjectType::EVENT
    }

    fn rights(&self) -> HandleRights {
        HandleRights::BASIC | HandleRights::SIGNAL
    }

    fn narrowed(self, _: HandleRights) -> Option<Recorded> {
        Some(self)
    }
}

#[derive(Debug, Fidl)]
#[fidl(resource = Recorded)]
pub(crate) struct Parcel {
    pub(crate) first: OwnedHandle<Recorded>,
    #[fidl(rights = HandleRights::BASIC)]
    pub(crate) key: Option<OwnedHandle<Recorded>>,
    pub(crate) content: Vec<OwnedHandle<Recorded>>,
    pub(crate) label: Label,
    pub(crate) seal: Seal,
}

#[derive(Debug, Fidl)]
#[fidl(table, resource = Recorded)]
pub(crate) struct Label {
    #[fidl(ordinal = 2)]
    pub(crate) stamp: Option<OwnedHandle<Recorded>>,
    #[fidl(ordinal = 4)]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Fidl)]
#[fidl(resource = Recorded)]
pub(crate) enum Seal {
    #[fidl(ordinal = 1)]
    Wax(OwnedHandle<Recorded>),
    #[fidl(ordinal = 2)]
    Parcels(Vec<Parcel>),
    #[fidl(unknown)]
    Other(Unknown),
}

/// Makes `count` handles that record when they are closed.
pub(crate) fn handles(count: usize) -> (Vec<Recorded>, Rc<RefCell<Vec<u32>>>) {
    let closed = Rc::new(RefCell::new(vec![0; count]));
    let handle = |place| Recorded { place, closed: closed.clone() };
    ((0..count).map(handle).collect(), closed)
}

/// Checks that a message is refused or has the bytes of another value, and that each handle is
/// closed exactly once.
pub(crate) fn check_handles(bytes: &[u8], count: usize) {
    let (came, closed) = handles(count);
    let owned = decode_owned::<Parcel, Recorded>(bytes, came);
    let (came, closed_too) = handles(count);
    let mut came = Handles::from(came);
    let view = decode_with_handles::<Parcel, Recorded>(bytes, &mut came);
    let view = view.map(|view| (format!("{view:?}").is_empty(), view));
    let from_view = view.map(|(_, view)| Parcel::from_view(view, &mut came));
    assert_eq!(came.remaining(), 0, "all are taken or closed");
    assert_eq!(format!("{owned:?}"), format!("{from_view:?}"));
    drop(from_view);
    if let Ok(parcel) = owned {
        check_parcel(parcel, bytes, count);
    }
    for closed in [closed, closed_too] {
        assert!(closed.borrow().iter().all(|times| *times == 1), "{:?}", closed.borrow());
    }
}

fn check_parcel(mut parcel: Parcel, bytes: &[u8], count: usize) {
    let mut leaving: Vec<Departing<Recorded>> = Vec::new();
    take_handles(&mut parcel, &mut leaving).unwrap();
    assert!(leaving.is_sorted_by_key(|departing| departing.handle.place));
    match encode(&parcel) {
        Ok(again) if again == bytes => assert_eq!(leaving.len(), count),
        // Unknown members of the table are dropped, with their handles.
        Ok(again) => assert!(again.len() <= bytes.len() && leaving.len() <= count),
        Err(error) => assert!(matches!(error.rule(), Rule::UnknownNotEncodable { .. })),
    }
}
