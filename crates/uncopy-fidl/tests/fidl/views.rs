//! Guarantees beyond the bytes: where views point, that handles move once, and the text of errors.

use std::cell::Cell;
use std::rc::Rc;

use uncopy_fidl::zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
use uncopy_fidl::{
    CodecHandle, Departing, Encoder, Fidl, HandleRights, Handles, Header, NoHandle, ObjectType,
    OwnedHandle, Received, RegionList, Rule, decode, decode_message, decode_owned,
    decode_with_handles, encode, encode_message, take_handles,
};

/// Counts its open instances.
#[derive(Debug)]
struct Counted(Rc<Cell<i32>>);

impl Counted {
    fn open(count: &Rc<Cell<i32>>) -> Counted {
        count.set(count.get() + 1);
        Counted(count.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

impl CodecHandle for Counted {
    fn object_type(&self) -> ObjectType {
        ObjectType::EVENT
    }

    fn rights(&self) -> HandleRights {
        HandleRights::SAME_RIGHTS
    }

    fn narrowed(self, _: HandleRights) -> Option<Counted> {
        Some(self)
    }
}

#[derive(Debug, Fidl)]
#[fidl(resource = Counted)]
struct Parcel {
    label: String,
    content: Vec<OwnedHandle<Counted>>,
    key: Option<OwnedHandle<Counted>>,
}

fn parcel(count: &Rc<Cell<i32>>) -> Parcel {
    let content = (0..3).map(|_| Counted::open(count).into()).collect();
    Parcel { label: "fragile".into(), content, key: Some(Counted::open(count).into()) }
}

#[derive(Debug, Clone, Fidl)]
struct Sample {
    at: u64,
    value: f32,
    is_valid: bool,
}

#[test]
fn errors_name_the_wrong_item_in_long_vectors() {
    #[derive(Debug, Fidl)]
    struct Samples {
        samples: Vec<Sample>,
    }
    let samples = vec![Sample { at: u64::MAX, value: -1.0, is_valid: true }; 100];
    let bytes = encode(&Samples { samples }).unwrap();
    let item = 16 + 40 * 16;
    for (offset, rule, path) in [
        (item + 12, Rule::InvalidBool { found: 3 }, "samples[40].is_valid"),
        (item + 14, Rule::NonZeroPadding { found: 2 }, "samples[40]"),
    ] {
        let mut changed = bytes.clone();
        changed[offset] |= 2;
        let error = decode::<Samples>(&changed).unwrap_err();
        assert_eq!((error.rule(), error.offset()), (rule, Some(offset)));
        assert_eq!(error.path(), path);
    }
}

#[test]
fn handles_move_once_and_none_leaks() {
    let count = Rc::new(Cell::new(0));
    let mut parcel = parcel(&count);
    assert_eq!(encode(&parcel).unwrap_err().rule(), Rule::HandleNotTaken);

    let mut leaving: Vec<Departing<Counted>> = Vec::new();
    take_handles(&mut parcel, &mut leaving).unwrap();
    assert_eq!((leaving.len(), count.get()), (4, 4));
    let bytes = encode(&parcel).unwrap();
    drop(parcel);
    assert_eq!(count.get(), 4, "they have left the value");

    let came: Vec<Counted> = leaving.into_iter().map(|departing| departing.handle).collect();
    let mut handles = Handles::from(came);
    let view = decode_with_handles::<Parcel, Counted>(&bytes, &mut handles).unwrap();
    let key = handles.take(view.key.unwrap()).unwrap();
    assert!(handles.take(view.key.unwrap()).is_none());
    let first = view.content.get(0).unwrap();
    assert_eq!((first.get(), handles.remaining()), (0, 3));
    drop(handles);
    assert_eq!(count.get(), 1);
    drop(key);
    assert_eq!(count.get(), 0);
}

#[test]
fn taking_twice_fails_and_closes_the_rest() {
    let count = Rc::new(Cell::new(0));
    let mut parcel = parcel(&count);
    let mut leaving = Vec::new();
    take_handles(&mut parcel, &mut leaving).unwrap();
    parcel.content.push(Counted::open(&count).into());
    let error = take_handles(&mut parcel, &mut leaving).unwrap_err();
    assert_eq!((error.rule(), error.path().as_str()), (Rule::HandleGone, "content[0]"));
    assert!(leaving.is_empty());
    drop(parcel);
    assert_eq!(count.get(), 0);
}

#[test]
fn a_refused_message_closes_its_handles() {
    let count = Rc::new(Cell::new(0));
    let came = vec![Counted::open(&count), Counted::open(&count)];
    assert!(decode_owned::<u32, Counted>(&[0; 8], came).is_err());
    assert_eq!(count.get(), 0);
    let mut handles = Handles::from(vec![Counted::open(&count)]);
    assert!(decode_message::<u32, Counted>(&[0; 8], &mut handles).is_err());
    assert_eq!(count.get(), 0);
}

#[test]
fn an_owned_value_has_its_handles() {
    let count = Rc::new(Cell::new(0));
    let mut sent = parcel(&count);
    let mut leaving = Vec::new();
    take_handles(&mut sent, &mut leaving).unwrap();
    let bytes = encode(&sent).unwrap();
    let came = leaving.into_iter().map(|departing| departing.handle).collect();
    let mut received: Parcel = decode_owned(&bytes, came).unwrap();
    assert_eq!((received.label.as_str(), received.content.len()), ("fragile", 3));
    let key = received.key.take().and_then(OwnedHandle::into_inner);
    drop(received);
    assert_eq!(count.get(), 1);
    drop(key);
    assert_eq!(count.get(), 0);
}

#[derive(Debug, Clone, Copy, PartialEq, Fidl, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
#[fidl(plain)]
struct Pixel {
    red: u16,
    green: u16,
    blue: u16,
    alpha: u16,
}

#[derive(Debug, PartialEq, Fidl)]
struct Picture {
    corner: Pixel,
    pixels: Vec<Pixel>,
}

#[test]
fn plain_structs_are_borrowed() {
    let pixel = |n| Pixel { red: n, green: n, blue: n, alpha: u16::MAX };
    let picture = Picture { corner: pixel(0), pixels: (0..300).map(pixel).collect() };
    let mut encoder = Encoder::new();
    let mut list = RegionList::new();
    let regions = encoder.gather(&picture, &mut list).unwrap();
    assert_eq!(regions.as_slices().len(), 2);
    assert_eq!(regions.as_slices()[1].as_ptr(), picture.pixels.as_ptr().cast());

    let bytes = regions.to_vec();
    let view = decode::<Picture>(&bytes).unwrap();
    assert_eq!((view.corner.get(), view.pixels.get(7).unwrap().get()), (pixel(0), pixel(7)));
    assert!(view.pixels.get(300).is_none());
    let first = view.corner.as_ref().unwrap();
    assert_eq!((first, std::ptr::from_ref(first).cast()), (&pixel(0), bytes.as_ptr()));
    let owned: Picture = decode_owned::<Picture, NoHandle>(&bytes, vec![]).unwrap();
    assert_eq!(owned, picture);
}

#[derive(Fidl)]
struct Borrowing<'a> {
    name: &'a str,
    words: &'a [u32],
    more: Option<&'a [u8]>,
}

#[derive(Debug, PartialEq, Fidl)]
struct Owning {
    name: String,
    words: Vec<u32>,
    more: Option<Vec<u8>>,
}

#[test]
fn borrowing_types_encode_like_owning_types() {
    let (words, more) = (vec![1, 2, 3], vec![4u8; 2200]);
    let borrowing = Borrowing { name: "x", words: &words, more: Some(&more) };
    let mut encoder = Encoder::new();
    let mut list = RegionList::new();
    let regions = encoder.gather(&borrowing, &mut list).unwrap();
    assert_eq!(regions.as_slices()[1].as_ptr(), more.as_ptr());
    let bytes = regions.to_vec();
    let owning = Owning { name: "x".into(), words: words.clone(), more: Some(more.clone()) };
    assert_eq!(bytes, encode(&owning).unwrap());
    assert_eq!(decode_owned::<Owning, NoHandle>(&bytes, vec![]), Ok(owning));
}

#[test]
fn a_received_message_keeps_its_bytes() {
    let header = Header::two_way(3, 77);
    let message = encode_message(&header, &vec!["a".to_owned(), "b".to_owned()]).unwrap();
    assert_eq!(Header::parse(&message), Ok(header));
    let received = Received::<Vec<String>, Vec<u8>, NoHandle>::new(message, vec![]).unwrap();
    let view = received.view().unwrap();
    assert_eq!(view.iter().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(received.to_owned_value().unwrap(), ["a", "b"]);
}

#[derive(Debug, Fidl)]
struct Outer {
    inner: Vec<Inner>,
}

#[derive(Debug, Fidl)]
struct Inner {
    number: u32,
    #[fidl(max = 3)]
    name: String,
}

#[test]
fn errors_name_the_field_and_the_byte() {
    let inner = |name: &str| Inner { number: 1, name: name.into() };
    let mut bytes = encode(&Outer { inner: vec![inner("abc"), inner("de")] }).unwrap();
    let last = bytes.len() - 8;
    bytes[last] = 0xff;
    let error = decode::<Outer>(&bytes).unwrap_err();
    assert_eq!(error.path(), "inner[1].name");
    assert_eq!((error.rule(), error.offset()), (Rule::NotUtf8 { valid: 0 }, Some(last)));

    let error = encode(&Outer { inner: vec![inner("abc"), inner("long")] }).unwrap_err();
    assert_eq!(error.to_string(), "inner[1].name: a string of 4 bytes, 3 at most; shorten it");
    assert_eq!(error.offset(), None);

    let message = encode_message(&Header::one_way(1), &true).unwrap();
    let mut changed = message.clone();
    changed[16] = 2;
    let error = decode_message::<bool, NoHandle>(&changed, &mut Handles::default()).unwrap_err();
    assert_eq!(error.offset(), Some(16), "offsets count from the header on");
}

#[test]
fn a_message_longer_than_a_channel_allows_is_refused() {
    let most = vec![0u8; uncopy_fidl::MAX_BYTES - 16];
    let bytes = encode(&most).unwrap();
    assert_eq!(bytes.len(), uncopy_fidl::MAX_BYTES);
    assert_eq!(decode::<Vec<u8>>(&bytes).unwrap(), most);
    let mut longer = bytes.clone();
    longer.extend([0; 8]);
    let rule = Rule::MessageTooLong { bytes: longer.len() };
    assert_eq!(decode::<Vec<u8>>(&longer).unwrap_err().rule(), rule);
    let mut encoder = Encoder::new();
    for value in [vec![0u64; 8191], vec![0; 1 << 20]] {
        let error = encoder.linear(&value).unwrap_err();
        assert!(matches!(error.rule(), Rule::MessageTooLong { .. }));
        assert!(encoder.gather(&value, &mut RegionList::new()).is_err());
    }
    // Items that are encoded separately.
    let error = encode(&vec![String::new(); 1 << 20]).unwrap_err();
    assert!(matches!(error.rule(), Rule::MessageTooLong { .. }));
}

#[test]
fn bits_and_enums_have_their_names() {
    #[derive(Debug, Clone, Copy, PartialEq, Fidl)]
    #[fidl(bits(READ = 1, WRITE = 2))]
    struct Mode(u8);
    let mode = Mode::READ | Mode::WRITE;
    assert_eq!((mode, mode.bits()), (Mode::ALL, 3));
    assert!(mode.contains(Mode::READ) && !Mode::READ.contains(mode));
    assert_eq!(decode::<Mode>(&encode(&Mode::WRITE).unwrap()), Ok(Mode::WRITE));
}
