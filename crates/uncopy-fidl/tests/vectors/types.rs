//! Types of the cases, with the names used there.
#![allow(non_camel_case_types, reason = "views have variants of the same names")]

use uncopy_fidl::{
    ClientEnd, Empty, Fidl, HandleRights, ObjectType, OwnedHandle, ServerEnd, Unknown, decode_owned,
};

use crate::check::{Subject, subject_of};
use crate::handle::TestHandle;
use crate::value::Value;

/// Conversion from a parsed value.
pub(crate) trait FromValue {
    fn from_value(value: &Value, handles: &[TestHandle]) -> Self;
}

/// Structs and tables. A struct gets its declaration, and the traits that cases need.
macro_rules! objects {
    ($(
        $(#[$attribute:meta])*
        struct $name:ident { $($(#[$of_field:meta])* $field:ident: $type:ty,)* }
    )*) => {
        $(
            #[derive(Debug, PartialEq, Fidl)]
            $(#[$attribute])*
            pub(crate) struct $name { $($(#[$of_field])* $field: $type,)* }

            impl FromValue for $name {
                fn from_value(value: &Value, handles: &[TestHandle]) -> $name {
                    if let Value::Decoded { bytes, handles: order, .. } = value {
                        let came = order.iter().map(|number| handles[*number].clone()).collect();
                        return decode_owned(bytes, came).unwrap();
                    }
                    $name { $($field: value.field(stringify!($field), handles),)* }
                }
            }
        )*

        fn object(name: &str) -> Option<Subject> {
            match name {
                $(stringify!($name) => Some(subject_of::<$name>()),)*
                _ => None,
            }
        }
    };
}

objects! {
    struct GoldenBoolStruct { v: bool, }
    struct GoldenIntStruct { v: i16, }
    struct GoldenUintStruct { v: u16, }
    struct GoldenFloatStruct { v: f32, }
    struct GoldenDoubleStruct { v: f64, }
    struct GoldenStringStruct { v: String, }
    struct GoldenNullableStringStruct { v: Option<String>, }
    struct GoldenEnumStruct { v: GoldenEnum, }
    struct GoldenBitsStruct { v: GoldenBits, }
    #[fidl(table)]
    struct GoldenTable { #[fidl(ordinal = 1)] v: Option<i16>, }
    struct GoldenTableStruct { v: GoldenTable, }
    struct GoldenUnionStruct { v: GoldenUnion, }
    struct GoldenNullableUnionStruct { v: Option<GoldenUnion>, }
    struct GoldenByteArrayStruct { v: [u8; 4], }
    struct GoldenStructArrayStruct { v: [GoldenIntStruct; 2], }
    struct GoldenByteVectorStruct { v: Vec<u8>, }
    struct GoldenNullableByteVectorStruct { v: Option<Vec<u8>>, }
    struct GoldenStructVectorStruct { v: Vec<GoldenIntStruct>, }
    struct GoldenNullableStruct { v: Option<Box<GoldenBoolStruct>>, }
    #[fidl(resource = TestHandle)]
    struct GoldenHandleBasicRightsStruct {
        #[fidl(kind = ObjectType::EVENT, rights = HandleRights::BASIC)] v: OwnedHandle<TestHandle>,
    }
    #[fidl(resource = TestHandle)]
    struct GoldenNullableHandleStruct { v: Option<OwnedHandle<TestHandle>>, }
    struct GoldenStringWithMaxSize2 { #[fidl(max = 2)] s: String, }

    struct VectorWithLimit { #[fidl(max = 2)] v: Vec<u8>, }
    struct VectorWrapper { v: Vec<u8>, }
    struct OptionalVectorWrapper { v: Option<Vec<u8>>, }
    struct VectorOfByteVector { v: Vec<Vec<u8>>, }
    struct VectorOfStrings { v: Vec<String>, }
    struct LotsOfVectors {
        v1: Vec<u16>, v2: Vec<u32>, v3: Vec<u64>, v4: Vec<String>, v5: Vec<i8>, v6: Vec<i16>,
        v7: Vec<i32>, v8: Vec<i64>, v9: Vec<bool>,
    }
    struct VectorWithLimitInVector { #[fidl(item(max = 2))] v: Vec<Vec<u8>>, }
    struct VectorWithLimitInArray { #[fidl(item(max = 2))] a: [Option<Vec<u8>>; 2], }
    #[fidl(table)]
    struct TableWithVectorWithLimit { #[fidl(ordinal = 1, max = 2)] v: Option<Vec<u8>>, }
    struct VectorWithLimitInTable { t: TableWithVectorWithLimit, }
    struct VectorWithLimitInUnion { u: UnionWithVectorWithLimit, }

    struct ThreeByte { elem1: u8, elem2: u8, elem3: u8, }
    struct FiveByte { elem1: u32, elem2: u8, }
    struct ThreeByteInStruct { elem1: ThreeByte, elem2: ThreeByte, elem3: ThreeByte, }
    struct FiveByteInStruct { elem1: FiveByte, elem2: FiveByte, elem3: FiveByte, }
    struct ThreeByteInVector { elems: Vec<ThreeByte>, }
    struct FiveByteInVector { elems: Vec<FiveByte>, }
    struct ThreeByteInArray { elems: [ThreeByte; 3], }
    struct FiveByteInArray { elems: [FiveByte; 3], }

    struct Numbers {
        a: u8, b: i8, c: u16, d: i16, e: u32, f: i32, g: u64, h: i64, i: f32, j: f64, k: bool,
    }
    struct Gaps { a: u8, b: u32, c: u8, d: u64, e: u16, }
    struct Arrays { a: [u16; 3], b: [[u8; 2]; 2], c: [bool; 2], d: [String; 2], }
    struct OneEnum { v: Strict8, }
    struct Enums { a: Strict8, b: Flexible16, c: Strict32, d: Flexible64, e: Signed8, f: Signed64, }
    struct BitsOfEachWidth { a: Bits8, b: Bits16, c: Bits32, d: Bits64, }
    struct FlexibleBits { v: Flags, }
    struct Nothing { v: Empty, }
    struct Limited { #[fidl(max = 3, item(max = 2))] v: Vec<String>, }
    struct Bools { v: Vec<bool>, }
    struct Longs { v: Vec<u32>, }

    #[fidl(table, reserved(4))]
    struct Options {
        #[fidl(ordinal = 1)] byte: Option<u8>,
        #[fidl(ordinal = 2)] number: Option<u64>,
        #[fidl(ordinal = 3)] text: Option<String>,
        #[fidl(ordinal = 5)] inner: Option<GoldenTable>,
        #[fidl(ordinal = 6)] three: Option<ThreeByte>,
    }
    struct OptionsWrapper { v: Options, }
    #[fidl(table, resource = TestHandle)]
    struct Carrier {
        #[fidl(ordinal = 1)] event: Option<OwnedHandle<TestHandle>>,
        #[fidl(ordinal = 2)] events: Option<Vec<OwnedHandle<TestHandle>>>,
    }
    #[fidl(resource = TestHandle)]
    struct CarrierWrapper { v: Carrier, }

    struct StrictUnion { v: Shape, }
    struct FlexibleUnion { v: Message, }
    struct OptionalUnion { a: Option<Shape>, b: Option<Box<Shape>>, }

    #[fidl(resource = TestHandle)]
    struct HandlesInOrder {
        a: Vec<OwnedHandle<TestHandle>>,
        b: Option<OwnedHandle<TestHandle>>,
        c: [OwnedHandle<TestHandle>; 2],
    }
    #[fidl(resource = TestHandle)]
    struct Ends {
        client: ClientEnd<(), TestHandle>,
        server: Option<ServerEnd<(), TestHandle>>,
    }
    #[fidl(resource = TestHandle)]
    struct HandleUnion { v: Gift, }

    struct Node { next: Option<Box<Node>>, }
    struct UnionNode { v: Option<Box<Nest>>, }
    #[fidl(table)]
    struct TableNode { #[fidl(ordinal = 1)] next: Option<Box<TableNode>>, }
    struct TableNodeWrapper { v: TableNode, }
}

/// Finds the type of a case.
pub(crate) fn subject(name: &str) -> Option<Subject> {
    object(name)
}

/// Enums, from their number.
macro_rules! enums {
    ($($name:ident($number:ty) { $($member:ident = $value:literal),* } $(else $unknown:ident)?;)*) => {
        $(
            impl FromValue for $name {
                fn from_value(value: &Value, _: &[TestHandle]) -> $name {
                    match <$number>::try_from(value.int()).unwrap() {
                        $($value => $name::$member,)*
                        $(other => $name::$unknown(other),)?
                        #[allow(unreachable_patterns)]
                        other => panic!("{other} is no {}", stringify!($name)),
                    }
                }
            }
        )*
    };
}

#[derive(Debug, Clone, Copy, PartialEq, Fidl)]
#[repr(u16)]
pub(crate) enum GoldenEnum {
    A = 1,
}

#[derive(Debug, Clone, Copy, PartialEq, Fidl)]
#[repr(u8)]
pub(crate) enum Strict8 {
    A = 0,
    B = 255,
}

#[derive(Debug, Clone, Copy, PartialEq, Fidl)]
#[repr(u16)]
pub(crate) enum Flexible16 {
    A = 1,
    #[fidl(unknown)]
    Other(u16),
}

#[derive(Debug, Clone, Copy, PartialEq, Fidl)]
#[repr(u32)]
pub(crate) enum Strict32 {
    A = 0x8000_0000,
}

#[derive(Debug, Clone, Copy, PartialEq, Fidl)]
#[repr(u64)]
pub(crate) enum Flexible64 {
    A = 1,
    #[fidl(unknown)]
    Other(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Fidl)]
#[repr(i8)]
pub(crate) enum Signed8 {
    Low = -128,
    High = 127,
}

#[derive(Debug, Clone, Copy, PartialEq, Fidl)]
#[repr(i64)]
pub(crate) enum Signed64 {
    Low = -9_223_372_036_854_775_808,
    #[fidl(unknown)]
    Other(i64),
}

enums! {
    GoldenEnum(u16) { A = 1 };
    Strict8(u8) { A = 0, B = 255 };
    Flexible16(u16) { A = 1 } else Other;
    Strict32(u32) { A = 0x8000_0000 };
    Flexible64(u64) { A = 1 } else Other;
    Signed8(i8) { Low = -128, High = 127 };
    Signed64(i64) { Low = -9_223_372_036_854_775_808 } else Other;
}

/// Bits, from their number.
macro_rules! bits {
    ($($name:ident($number:ty) { $($words:tt)* })*) => {$(
        #[derive(Debug, Clone, Copy, PartialEq, Fidl)]
        #[fidl($($words)*)]
        pub(crate) struct $name($number);

        impl FromValue for $name {
            fn from_value(value: &Value, _: &[TestHandle]) -> $name {
                $name(<$number>::try_from(value.int()).unwrap())
            }
        }
    )*};
}

bits! {
    GoldenBits(u16) { bits(A = 1) }
    Bits8(u8) { bits(LOW = 1, HIGH = 0x80) }
    Bits16(u16) { bits(LOW = 1, HIGH = 0x8000) }
    Bits32(u32) { bits(LOW = 1, HIGH = 0x8000_0000) }
    Bits64(u64) { bits(LOW = 1, HIGH = 0x8000_0000_0000_0000) }
    Flags(u8) { bits(READ = 1, WRITE = 2), flexible }
}

/// Unions, from objects with one field.
macro_rules! unions {
    ($($name:ident { $($variant:ident)* $(; unit $unit:ident)? $(; unknown $unknown:ident)? })*) => {
        $(
            impl FromValue for $name {
                fn from_value(value: &Value, _handles: &[TestHandle]) -> $name {
                    let (variant, payload) = &value.fields()[0];
                    match variant.as_str() {
                        $(stringify!($variant) => {
                            $name::$variant(FromValue::from_value(payload, _handles))
                        })*
                        $(stringify!($unit) => $name::$unit,)?
                        $(ordinal => {
                            let bytes = Vec::from_value(payload, _handles);
                            let ordinal = ordinal.parse().unwrap();
                            $name::$unknown(Unknown { ordinal, bytes, handles: 0 })
                        })?
                        #[allow(unreachable_patterns)]
                        other => panic!("{other} is no member of {}", stringify!($name)),
                    }
                }
            }
        )*
    };
}

#[derive(Debug, PartialEq, Fidl)]
pub(crate) enum GoldenUnion {
    #[fidl(ordinal = 1)]
    v(i16),
}

#[derive(Debug, PartialEq, Fidl)]
pub(crate) enum UnionWithVectorWithLimit {
    #[fidl(ordinal = 1, max = 2)]
    v(Vec<u8>),
    #[fidl(unknown)]
    Unknown(Unknown),
}

#[derive(Debug, PartialEq, Fidl)]
#[fidl(reserved(3))]
pub(crate) enum Shape {
    #[fidl(ordinal = 1)]
    radius(u32),
    #[fidl(ordinal = 2)]
    name(String),
    #[fidl(ordinal = 4)]
    point,
    #[fidl(ordinal = 5)]
    size(FiveByte),
}

#[derive(Debug, PartialEq, Fidl)]
pub(crate) enum Message {
    #[fidl(ordinal = 1)]
    byte(u8),
    #[fidl(unknown)]
    Unknown(Unknown),
}

#[derive(Debug, PartialEq, Fidl)]
#[fidl(resource = TestHandle)]
pub(crate) enum Gift {
    #[fidl(ordinal = 1)]
    event(OwnedHandle<TestHandle>),
    #[fidl(ordinal = 2)]
    many(Vec<OwnedHandle<TestHandle>>),
    #[fidl(unknown)]
    Unknown(Unknown),
}

#[derive(Debug, PartialEq, Fidl)]
pub(crate) enum Nest {
    #[fidl(ordinal = 1)]
    inner(Box<UnionNode>),
    #[fidl(ordinal = 2)]
    leaf(u8),
}

unions! {
    GoldenUnion { v }
    UnionWithVectorWithLimit { v; unknown Unknown }
    Shape { radius name size; unit point }
    Message { byte; unknown Unknown }
    Gift { event many; unknown Unknown }
    Nest { inner leaf }
}

impl FromValue for Empty {
    fn from_value(_: &Value, _: &[TestHandle]) -> Empty {
        Empty {}
    }
}

impl FromValue for ClientEnd<(), TestHandle> {
    fn from_value(value: &Value, handles: &[TestHandle]) -> Self {
        OwnedHandle::from_value(value, handles).into_inner().unwrap().into()
    }
}

impl FromValue for ServerEnd<(), TestHandle> {
    fn from_value(value: &Value, handles: &[TestHandle]) -> Self {
        OwnedHandle::from_value(value, handles).into_inner().unwrap().into()
    }
}
