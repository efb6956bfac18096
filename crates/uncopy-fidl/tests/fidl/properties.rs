//! Properties of all values: encoding and decoding round-trips, regions have the same bytes as one
//! buffer, and a changed message is refused or decodes to another value.

mod parcels;
mod zoo;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::Index;
use uncopy_fidl::{
    Encoder, GatherOptions, NoHandle, RegionList, Unknown, decode, decode_owned, encode,
    take_handles,
};

use parcels::{Label, Parcel, Recorded, Seal, check_handles, handles};
use zoo::{
    Color, Containers, Leaf, Mark, Mode, Numbers, Settings, Strict, Tree, Value, check_any,
    check_changed,
};

fn text() -> impl Strategy<Value = String> {
    "\\PC{0,40}"
}

fn numbers() -> impl Strategy<Value = Numbers> {
    let parts = (any::<u8>(), any::<i64>(), any::<bool>(), any::<u16>(), any::<i32>());
    (parts, any::<f64>(), any::<f32>()).prop_map(|((a, b, c, d, e), f, g)| Numbers {
        a,
        b,
        c,
        d,
        e,
        f,
        g,
    })
}

fn color() -> impl Strategy<Value = Color> {
    any::<i16>().prop_map(|number| match number {
        ..=-20_000 => Color::Red,
        20_000.. => Color::Green,
        -1 | 300 => Color::Other(0),
        other => Color::Other(other),
    })
}

fn mode() -> impl Strategy<Value = Mode> {
    (0u8..8).prop_map(|bits| Mode(bits & 3 | if bits & 4 == 0 { 0 } else { 0x80 }))
}

fn mark() -> impl Strategy<Value = Mark> {
    (mode(), any::<u16>(), any::<bool>()).prop_map(|(mode, place, is_set)| Mark {
        mode,
        place,
        is_set,
    })
}

fn containers() -> impl Strategy<Value = Containers> {
    let vectors = (
        vec(any::<u8>(), 0..600),
        vec(any::<u32>(), 0..100),
        option::of(vec(any::<f32>(), 0..9)),
        vec(any::<bool>(), 0..20),
        vec(text(), 0..5),
        vec(vec(vec(any::<u16>(), 0..5), 0..4), 0..4),
    );
    let flat = (vec(numbers(), 0..5), [mark(), mark(), mark()]);
    let others = (flat, [option::of(text()), option::of(text())], color(), mode());
    (vectors, others).prop_map(
        |((bytes, words, floats, flags, texts, nested), ((numbers, marks), pair, color, mode))| {
            Containers {
                bytes,
                words,
                floats,
                flags,
                texts,
                nested,
                numbers,
                marks,
                pair,
                color,
                mode,
            }
        },
    )
}

fn leaf() -> impl Strategy<Value = Leaf> {
    let unknown = (8u64..u64::MAX, prop_oneof![Just(4), Just(8), Just(24)]).prop_flat_map(
        |(ordinal, length)| {
            let bytes = vec(any::<u8>(), length);
            bytes.prop_map(move |bytes| Leaf::Other(Unknown { ordinal, bytes, handles: 0 }))
        },
    );
    prop_oneof![
        any::<u8>().prop_map(Leaf::Small),
        text().prop_map(Leaf::Text),
        Just(Leaf::Nothing),
        numbers().prop_map(Leaf::Numbers),
        unknown,
    ]
}

/// An unknown member with any ordinal and any contents.
fn any_unknown() -> impl Strategy<Value = Unknown> {
    let ordinal = prop_oneof![0u64..9, any::<u64>(), Just(u64::MAX)];
    let bytes = vec(prop_oneof![Just(0), Just(8), Just(0xff), any::<u8>()], 0..40);
    let handles = prop_oneof![4 => Just(0usize), 1 => 0usize..3];
    (ordinal, bytes, handles).prop_map(|(ordinal, bytes, handles)| Unknown {
        ordinal,
        bytes,
        handles,
    })
}

fn any_leaf() -> impl Strategy<Value = Leaf> {
    prop_oneof![1 => leaf(), 2 => any_unknown().prop_map(Leaf::Other)]
}

fn tree() -> impl Strategy<Value = Tree> {
    let root = (any::<u16>(), vec(leaf(), 0..4)).prop_map(|(value, leaves)| Tree {
        value,
        left: None,
        right: None,
        leaves,
    });
    root.prop_recursive(6, 20, 2, |inner| {
        let sides = (option::of(inner.clone()), option::of(inner));
        (any::<u16>(), sides, vec(leaf(), 0..3)).prop_map(|(value, (left, right), leaves)| Tree {
            value,
            left: left.map(Box::new),
            right: right.map(Box::new),
            leaves,
        })
    })
}

fn strict() -> impl Strategy<Value = Strict> {
    prop_oneof![vec(any::<u8>(), 0..400).prop_map(Strict::Bytes), mode().prop_map(Strict::Mode)]
}

fn settings() -> impl Strategy<Value = Settings> {
    let plain = (option::of(any::<u8>()), option::of(text()), option::of(strict()));
    let plain = plain.prop_map(|(level, name, strict)| Settings {
        level,
        name,
        strict,
        inner: None,
        many: None,
    });
    plain.prop_recursive(4, 12, 3, |inner| {
        let nested = (option::of(inner.clone()), option::of(vec(inner, 0..3)));
        (option::of(any::<u8>()), nested).prop_map(|(level, (inner, many))| {
            let inner = inner.map(Box::new);
            Settings { level, name: None, strict: None, inner, many }
        })
    })
}

/// Options for gathering, and a change of the message.
#[derive(Debug, Clone)]
struct Treatment {
    min_body_bytes: usize,
    max_regions: usize,
    changes: Vec<(Index, u8)>,
}

fn treatment() -> impl Strategy<Value = Treatment> {
    let byte = prop_oneof![any::<u8>(), Just(0), Just(1), Just(8), Just(0xff)];
    (1usize..300, 1usize..40, vec((any::<Index>(), byte), 1..8)).prop_map(
        |(min_body_bytes, max_regions, changes)| Treatment { min_body_bytes, max_regions, changes },
    )
}

fn check<T: Value>(value: &T, treatment: &Treatment, drops_unknown: bool) {
    let bytes = encode(value).unwrap();
    assert_eq!(decode_owned::<T, NoHandle>(&bytes, vec![]).as_ref(), Ok(value));

    // A view alone prints through its derived code; among items, the type prints it.
    let alone = decode::<T>(&bytes).unwrap();
    let among = encode(&vec![value]).unwrap();
    if let Ok(among) = decode::<Vec<T>>(&among) {
        assert_eq!(format!("{among:?}"), format!("{:?}", [alone]));
        assert_eq!(format!("{among:#?}"), format!("{:#?}", [alone]));
    }

    let options = GatherOptions::new()
        .min_body_bytes(treatment.min_body_bytes)
        .max_regions(treatment.max_regions);
    let mut encoder = Encoder::with_options(options).unwrap();
    assert_eq!(encoder.linear(value).unwrap(), bytes);
    let mut list = RegionList::new();
    let regions = encoder.gather(value, &mut list).unwrap();
    assert!(regions.as_slices().len() <= treatment.max_regions);
    assert_eq!(regions.total_bytes(), bytes.len());
    assert_eq!(regions.to_vec(), bytes);

    for length in [bytes.len() / 2, bytes.len().saturating_sub(1)] {
        assert!(decode::<T>(&bytes[..length]).is_err(), "cut off at {length}");
    }
    for (at, byte) in &treatment.changes {
        let mut changed = bytes.clone();
        changed[at.index(bytes.len())] = *byte;
        check_changed::<T>(&changed, drops_unknown);
    }
}

/// Fields of a parcel.
type Packed = (bool, usize, (bool, Option<String>), Option<Unknown>);

fn packed() -> impl Strategy<Value = Packed> {
    let unknown = (3u64.., vec(any::<u8>(), 4)).prop_map(|(ordinal, bytes)| Unknown {
        ordinal,
        bytes,
        handles: 0,
    });
    (any::<bool>(), 0usize..4, (any::<bool>(), option::of(text())), option::of(unknown))
}

fn parcel(packed: &[Packed], next: &mut dyn FnMut() -> Recorded) -> Option<Parcel> {
    let ((has_key, count, (has_stamp, name), unknown), inner) = packed.split_first()?;
    let first = next().into();
    let key = has_key.then(|| next().into());
    let content = (0..*count).map(|_| next().into()).collect();
    let label = Label { stamp: has_stamp.then(|| next().into()), name: name.clone() };
    let seal = match (unknown, parcel(inner, next)) {
        (_, Some(parcel)) => Seal::Parcels(vec![parcel]),
        (Some(unknown), None) => Seal::Other(unknown.clone()),
        (None, None) => Seal::Wax(next().into()),
    };
    Some(Parcel { first, key, content, label, seal })
}

proptest! {
    #[test]
    fn handles_are_closed_once(
        packed in vec(packed(), 1..4),
        treatment in treatment(),
        missing in -2isize..3,
    ) {
        let (mut spare, _) = handles(64);
        spare.reverse();
        let mut parcel = parcel(&packed, &mut || spare.pop().unwrap()).unwrap();
        let mut leaving = Vec::new();
        take_handles(&mut parcel, &mut leaving).unwrap();
        prop_assert!(leaving.iter().enumerate().all(|(i, leaving)| leaving.handle.place() == i));
        let bytes = encode(&parcel).unwrap();
        let (came, _) = handles(leaving.len());
        prop_assert!(decode_owned::<Parcel, Recorded>(&bytes, came).is_ok());
        check_handles(&bytes, leaving.len().saturating_add_signed(missing));
        for (at, byte) in &treatment.changes {
            let mut changed = bytes.clone();
            changed[at.index(bytes.len())] = *byte;
            check_handles(&changed, leaving.len());
        }
    }

    #[test]
    fn numbers_hold(value in numbers(), treatment in treatment()) {
        check(&value, &treatment, false);
    }

    #[test]
    fn containers_hold(value in containers(), treatment in treatment()) {
        check(&value, &treatment, false);
    }

    #[test]
    fn trees_hold(value in tree(), treatment in treatment()) {
        check(&value, &treatment, false);
    }

    #[test]
    fn vectors_of_unions_hold(value in vec(strict(), 0..6), treatment in treatment()) {
        check(&value, &treatment, false);
    }

    #[test]
    fn vectors_of_structs_hold(value in vec(numbers(), 0..20), treatment in treatment()) {
        check(&value, &treatment, false);
    }

    #[test]
    fn arrays_of_vectors_hold(
        value in [vec(any::<u64>(), 0..40), vec(any::<u64>(), 0..40)],
        treatment in treatment(),
    ) {
        check(&value, &treatment, false);
    }

    #[test]
    fn tables_hold(value in settings(), treatment in treatment()) {
        check(&value, &treatment, true);
    }

    /// Views and owned values follow the same rules.
    #[test]
    fn what_is_encoded_can_be_decoded(
        leaves in vec(any_leaf(), 1..4),
        above in 0usize..34,
    ) {
        let leaf = Tree { value: 1, left: None, right: None, leaves };
        let tree = (0..above).fold(leaf, |inner, depth| {
            let (left, right) = (Some(Box::new(inner)), None);
            let (left, right) = if depth.is_multiple_of(2) { (left, right) } else { (right, left) };
            Tree { value: 2, left, right, leaves: Vec::new() }
        });
        if let Ok(bytes) = encode(&tree) {
            let decoded = decode_owned::<Tree, NoHandle>(&bytes, vec![]);
            prop_assert_eq!(decoded.as_ref(), Ok(&tree));
        }
    }

    #[test]
    fn any_bytes_are_refused_or_a_value(bytes in vec(any::<u8>(), 0..200)) {
        check_any(&bytes);
    }
}
