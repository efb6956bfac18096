//! Nested types: boxes, channel ends and results, alone and in vectors and arrays; and the limits
//! of a message.
#![allow(clippy::vec_box, reason = "types may have such fields")]

use uncopy_fidl::{
    ClientEnd, CodecHandle, Departing, Fidl, HandleRights, Header, MethodResult, NoHandle,
    ObjectType, Received, Rule, ServerEnd, UNKNOWN_METHOD, Unknown, decode, decode_owned, encode,
    encode_message, take_handles,
};

#[derive(Debug, PartialEq, Fidl)]
struct Boxed {
    samples: Vec<Box<Pixels>>,
    pair: [Box<Pixels>; 2],
    alone: Box<Pixels>,
}

#[derive(Debug, PartialEq, Fidl)]
struct Unboxed {
    samples: Vec<Pixels>,
    pair: [Pixels; 2],
    alone: Pixels,
}

#[derive(Debug, Clone, PartialEq, Fidl)]
struct Pixels {
    count: u32,
    names: Vec<String>,
}

#[test]
fn a_required_box_is_encoded_as_its_contents() {
    let pixels = |count| Pixels { count, names: vec![format!("no. {count}"); count as usize] };
    let unboxed = Unboxed {
        samples: (0..5).map(pixels).collect(),
        pair: [pixels(7), pixels(0)],
        alone: pixels(2),
    };
    let boxed = Boxed {
        samples: (0..5).map(|count| Box::new(pixels(count))).collect(),
        pair: [Box::new(pixels(7)), Box::new(pixels(0))],
        alone: Box::new(pixels(2)),
    };
    let bytes = encode(&boxed).unwrap();
    assert_eq!(bytes, encode(&unboxed).unwrap());

    let view = decode::<Boxed>(&bytes).unwrap();
    let names: Vec<&str> = view.samples.get(3).unwrap().get().names.iter().collect();
    assert_eq!(names, ["no. 3"; 3]);
    assert!(view.samples.get(5).is_none());
    assert_eq!((view.pair.len(), view.alone.get().count), (2, 2));
    assert!(!view.samples.is_empty() && !view.pair.is_empty());
    assert_eq!(decode_owned::<Boxed, NoHandle>(&bytes, vec![]), Ok(boxed));
    assert_eq!(decode_owned::<Unboxed, NoHandle>(&bytes, vec![]), Ok(unboxed));

    // A box adds nothing to the path of an error.
    let mut changed = bytes;
    let last = changed.len() - 8;
    changed[last] = 0xff;
    let errors = [decode::<Boxed>(&changed).unwrap_err(), decode::<Unboxed>(&changed).unwrap_err()];
    assert_eq!(errors[0].to_string(), errors[1].to_string());
    assert_eq!(errors[0].path(), "alone.names[1]");
}

#[derive(Debug, PartialEq, Fidl)]
#[fidl(resource = Numbered)]
struct Switchboard {
    lines: Vec<ClientEnd<(), Numbered>>,
    pair: [ServerEnd<(), Numbered>; 2],
    spare: Vec<Option<ServerEnd<(), Numbered>>>,
    boxes: Vec<Box<Socket>>,
}

#[derive(Debug, PartialEq, Fidl)]
#[fidl(resource = Numbered)]
struct Socket {
    end: Option<ClientEnd<(), Numbered>>,
}

/// A handle with a number and any object type.
#[derive(Debug, PartialEq)]
struct Numbered(u32, ObjectType);

impl CodecHandle for Numbered {
    fn object_type(&self) -> ObjectType {
        self.1
    }

    fn rights(&self) -> HandleRights {
        HandleRights::SAME_RIGHTS
    }

    fn narrowed(self, _: HandleRights) -> Option<Numbered> {
        None
    }
}

#[test]
fn ends_of_channels_lie_in_vectors_arrays_and_boxes() {
    let end = |number| Numbered(number, ObjectType::CHANNEL);
    let switchboard = || Switchboard {
        lines: (0..3).map(|number| end(number).into()).collect(),
        pair: [end(3).into(), end(4).into()],
        spare: vec![None, Some(end(5).into())],
        boxes: vec![Box::new(Socket { end: Some(end(6).into()) }), Box::new(Socket { end: None })],
    };
    let mut sent = switchboard();
    let mut leaving: Vec<Departing<Numbered>> = Vec::new();
    take_handles(&mut sent, &mut leaving).unwrap();
    assert!(leaving.iter().all(|leaving| leaving.constraint.object_type == ObjectType::CHANNEL));
    let came: Vec<Numbered> = leaving.into_iter().map(|leaving| leaving.handle).collect();
    let numbers: Vec<u32> = came.iter().map(|handle| handle.0).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 6]);
    let bytes = encode(&sent).unwrap();
    assert_eq!(decode_owned::<Switchboard, Numbered>(&bytes, came), Ok(switchboard()));

    // The fourth is not a channel: the error names its field.
    let mut came: Vec<Numbered> = (0..7).map(end).collect();
    came[4].1 = ObjectType::EVENT;
    let error = decode_owned::<Switchboard, Numbered>(&bytes, came).unwrap_err();
    assert_eq!(error.path(), "pair[1]");
    let (expected, found) = (ObjectType::CHANNEL, ObjectType::EVENT);
    assert_eq!(error.rule(), Rule::WrongHandleType { expected, found });
    assert!(error.to_string().contains("a handle to an event, to a channel is wanted"), "{error}");
}

#[test]
fn vectors_of_every_number_round_trip() {
    #[derive(Debug, PartialEq, Fidl)]
    struct Numbers {
        bytes: Vec<u8>,
        small: Vec<i16>,
        words: Vec<u32>,
        signed: Vec<i32>,
        long: Vec<i64>,
        half: Vec<u64>,
        double: Vec<f64>,
    }
    let numbers = Numbers {
        bytes: vec![1, 2, 3],
        small: vec![i16::MIN, -1, i16::MAX],
        words: vec![u32::MAX],
        signed: vec![i32::MIN, 7],
        long: vec![i64::MIN, i64::MAX],
        half: vec![u64::MAX],
        double: vec![f64::MIN, 0.5, f64::INFINITY],
    };
    let bytes = encode(&numbers).unwrap();
    let view = decode::<Numbers>(&bytes).unwrap();
    assert_eq!((view.small[0].get(), view.long[1].get()), (i16::MIN, i64::MAX));
    assert_eq!(decode_owned::<Numbers, NoHandle>(&bytes, vec![]), Ok(numbers));
}

#[test]
fn tables_and_unions_that_borrow_are_encoded_as_those_that_own() {
    #[derive(Fidl)]
    #[fidl(table)]
    struct Borrowing<'a> {
        #[fidl(ordinal = 2)]
        name: Option<&'a str>,
    }
    #[derive(Debug, PartialEq, Fidl)]
    #[fidl(table)]
    struct Owning {
        #[fidl(ordinal = 2)]
        name: Option<String>,
    }
    #[derive(Fidl)]
    enum BorrowingUnion<'a> {
        #[fidl(ordinal = 5)]
        Words(&'a [u32]),
    }
    #[derive(Debug, PartialEq, Fidl)]
    enum OwningUnion {
        #[fidl(ordinal = 5)]
        Words(Vec<u32>),
    }
    let name = String::from("of somebody else");
    let bytes = encode(&Borrowing { name: Some(&name) }).unwrap();
    assert_eq!(decode_owned::<Owning, NoHandle>(&bytes, vec![]), Ok(Owning { name: Some(name) }));
    assert_eq!(encode(&Borrowing { name: None }), encode(&Owning { name: None }));
    let words = vec![1, 2, 3];
    let bytes = encode(&BorrowingUnion::Words(&words)).unwrap();
    let owned = decode_owned::<OwningUnion, NoHandle>(&bytes, vec![]);
    assert_eq!(owned, Ok(OwningUnion::Words(words)));
}

/// The result of a flexible method that can fail.
type Answer = MethodResult<Pixels, u32, true>;
/// The result of a strict method that can fail.
type StrictAnswer = MethodResult<Pixels, u32, false>;

#[test]
fn results_round_trip() {
    let pixels = Pixels { count: 1, names: vec!["one".into()] };
    let answers = vec![
        Answer::Success(pixels.clone()),
        Answer::Failure(7),
        Answer::Framework(UNKNOWN_METHOD),
    ];
    let bytes = encode(&answers).unwrap();
    let view = decode::<Vec<Answer>>(&bytes).unwrap();
    assert!(matches!(view.get(1), Some(MethodResult::Failure(7))));
    assert_eq!(decode_owned::<Vec<Answer>, NoHandle>(&bytes, vec![]), Ok(answers));

    // Every server knows a strict method, so this answer is invalid.
    let rule = Rule::UnknownUnionMember { ordinal: 3 };
    let refused = encode(&StrictAnswer::Framework(UNKNOWN_METHOD)).unwrap_err();
    assert_eq!(refused.rule(), rule);
    let bytes = encode(&Answer::Framework(UNKNOWN_METHOD)).unwrap();
    assert_eq!(decode::<StrictAnswer>(&bytes).unwrap_err().rule(), rule);
    let mut changed = encode(&Answer::Success(pixels)).unwrap();
    changed[0] = 4;
    let rule = Rule::UnknownUnionMember { ordinal: 4 };
    assert_eq!(decode::<Answer>(&changed).unwrap_err().rule(), rule);
}

#[derive(Debug, PartialEq, Fidl)]
#[fidl(reserved(4))]
enum Shape {
    #[fidl(ordinal = 1)]
    Radius(f32),
    #[fidl(ordinal = 2)]
    Nothing,
    #[fidl(ordinal = 0xffff_ffff_ffff_ffff)]
    Name(String),
    #[fidl(unknown)]
    Other(Unknown),
}

#[derive(Debug, PartialEq, Fidl)]
struct Drawing {
    shapes: Vec<Shape>,
    frame: Option<Shape>,
    boxed: Option<Box<Shape>>,
}

/// An unknown member that no receiver could accept is not sent.
#[test]
fn an_unknown_member_must_not_have_a_known_ordinal() {
    let other = |ordinal| Shape::Other(Unknown { ordinal, bytes: vec![0; 4], handles: 0 });
    let drawings = |ordinal| {
        [
            (Drawing { shapes: vec![Shape::Nothing, other(ordinal)], ..empty() }, "shapes[1]"),
            (Drawing { frame: Some(other(ordinal)), ..empty() }, "frame"),
            (Drawing { boxed: Some(Box::new(other(ordinal))), ..empty() }, "boxed"),
        ]
    };
    for (ordinal, rule) in [
        (0, Rule::UnknownOrdinalZero),
        (1, Rule::UnknownIsKnown { ordinal: 1 }),
        (2, Rule::UnknownIsKnown { ordinal: 2 }),
        (u64::MAX, Rule::UnknownIsKnown { ordinal: u64::MAX }),
    ] {
        for (drawing, path) in drawings(ordinal) {
            let error = encode(&drawing).unwrap_err();
            assert_eq!((error.rule(), error.path().as_str()), (rule, path));
        }
    }
    for ordinal in [3, 4, u64::MAX - 1] {
        for (drawing, _) in drawings(ordinal) {
            let bytes = encode(&drawing).unwrap();
            assert_eq!(decode_owned::<Drawing, NoHandle>(&bytes, vec![]), Ok(drawing));
        }
    }
    let zero = encode(&other(0)).unwrap_err().to_string();
    assert_eq!(zero, "an unknown member has the ordinal 0; keep the ordinal with which it came");
    let known = encode(&other(1)).unwrap_err().to_string();
    assert_eq!(known, "ordinal 1 of an unknown member is a known one's; send that member");
}

fn empty() -> Drawing {
    Drawing { shapes: Vec::new(), frame: None, boxed: None }
}

/// A type that borrows nothing has no lifetime, and a view has exactly the fields of its type.
#[test]
fn views_have_the_fields_of_their_types() {
    #[derive(Debug, PartialEq, Fidl)]
    struct Nothing;
    #[derive(Debug, PartialEq, Fidl)]
    #[fidl(table)]
    struct NoSettings {}
    #[derive(Debug, PartialEq, Fidl)]
    #[fidl(table)]
    struct Settings {
        #[fidl(ordinal = 2)]
        name: Option<String>,
    }
    let nothing: NothingView = decode::<Nothing>(&[0; 8]).unwrap();
    let bytes = encode(&NoSettings {}).unwrap();
    let none: NoSettingsView = decode::<NoSettings>(&bytes).unwrap();
    assert_eq!(format!("{nothing:?} {none:?}"), "NothingView NoSettingsView");
    let bytes = encode(&Settings { name: Some("x".to_owned()) }).unwrap();
    let SettingsView { name } = decode::<Settings>(&bytes).unwrap();
    assert_eq!(name, Some("x"));
    let again = decode::<Vec<NoSettings>>(&encode(&vec![NoSettings {}]).unwrap()).map(|_| ());
    assert_eq!(again, Ok(()));
}

#[test]
fn a_message_has_64_handles_at_most() {
    let handles = |count| (0..count).map(|number| Numbered(number, ObjectType::EVENT)).collect();
    let most: Vec<Numbered> = handles(64);
    let error = decode_owned::<u32, Numbered>(&[0; 8], most).unwrap_err();
    assert_eq!(error.rule(), Rule::ExtraHandles { left: 64 });
    let error = decode_owned::<u32, Numbered>(&[0; 8], handles(65)).unwrap_err();
    assert_eq!(error.rule(), Rule::TooManyHandles { handles: 65 });
}

#[test]
fn every_kind_of_object_has_a_name() {
    for (kind, name) in [
        (ObjectType::ANY, "anything"),
        (ObjectType::VMO, "a vmo"),
        (ObjectType::CHANNEL, "a channel"),
        (ObjectType::EVENT, "an event"),
        (ObjectType::PORT, "a port"),
        (ObjectType::SOCKET, "a socket"),
        (ObjectType::EVENTPAIR, "an event pair"),
        (ObjectType::FIFO, "a fifo"),
        (ObjectType(30), "an object of type 30"),
    ] {
        assert_eq!(kind.to_string(), name);
    }
}

#[test]
fn a_received_message_returns_its_memory() {
    let message = encode_message(&Header::one_way(7), &vec![1u32, 2, 3]).unwrap();
    let received = Received::<Vec<u32>, Vec<u8>, NoHandle>::new(message.clone(), vec![]).unwrap();
    assert_eq!(received.into_message(), message);
}

/// Makes a handle to a channel with these rights.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Righted(HandleRights);

impl CodecHandle for Righted {
    fn object_type(&self) -> ObjectType {
        ObjectType::CHANNEL
    }

    fn rights(&self) -> HandleRights {
        self.0
    }

    fn narrowed(self, rights: HandleRights) -> Option<Righted> {
        self.0.contains(rights).then_some(Righted(rights))
    }
}

#[derive(Debug, PartialEq, Fidl)]
#[fidl(resource = Righted)]
struct Rooms {
    client: ClientEnd<(), Righted>,
    server: Option<ServerEnd<(), Righted>>,
    #[fidl(item(rights = HandleRights::TRANSFER.union(HandleRights::READ)))]
    narrow: Vec<ClientEnd<(), Righted>>,
    #[fidl(rights = HandleRights::SAME_RIGHTS)]
    any: Option<ServerEnd<(), Righted>>,
}

/// Ends are sent with `ZX_DEFAULT_CHANNEL_RIGHTS` unless their field says otherwise.
#[test]
fn ends_have_the_rights_of_a_channel_unless_their_field_says_others() {
    let channel = HandleRights::from_bits_retain(0xf00e);
    assert_eq!(HandleRights::CHANNEL_DEFAULT, channel);
    let (narrow, more) =
        (HandleRights::TRANSFER | HandleRights::READ, channel | HandleRights::DUPLICATE);
    let rooms = |client, server, narrow, any| Rooms {
        client: Righted(client).into(),
        server: Some(Righted(server).into()),
        narrow: vec![Righted(narrow).into()],
        any: Some(Righted(any).into()),
    };
    let mut sent = rooms(channel, channel, channel, channel);
    let mut leaving: Vec<Departing<Righted>> = Vec::new();
    take_handles(&mut sent, &mut leaving).unwrap();
    let wanted: Vec<HandleRights> =
        leaving.iter().map(|leaving| leaving.constraint.rights).collect();
    assert_eq!(wanted, [channel, channel, narrow, HandleRights::SAME_RIGHTS]);
    let bytes = encode(&sent).unwrap();

    let came = |rights: [HandleRights; 4]| rights.map(Righted).to_vec();
    for (rights, received) in [
        // Accepted: the exact rights, more rights, and unknown rights.
        ([channel, channel, narrow, channel], rooms(channel, channel, narrow, channel)),
        ([more, more, more, more], rooms(channel, channel, narrow, more)),
        (
            [HandleRights::SAME_RIGHTS, channel, narrow, HandleRights::empty()],
            rooms(HandleRights::SAME_RIGHTS, channel, narrow, HandleRights::empty()),
        ),
    ] {
        assert_eq!(decode_owned::<Rooms, Righted>(&bytes, came(rights)), Ok(received));
    }
    for missing in channel.iter() {
        let fewer = channel - missing;
        for (at, path) in [(0, "client"), (1, "server")] {
            let mut rights = [channel, channel, narrow, channel];
            rights[at] = fewer;
            let error = decode_owned::<Rooms, Righted>(&bytes, came(rights)).unwrap_err();
            assert_eq!(error.rule(), Rule::MissingRights { expected: channel, found: fewer });
            assert_eq!(error.path(), path);
        }
    }
}
