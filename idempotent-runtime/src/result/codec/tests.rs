#![expect(
    clippy::needless_pass_by_value,
    reason = "the tables of values read better without the references"
)]

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::ffi::CString;
use std::fmt::Debug;
use std::net::IpAddr;

use rand::rngs::StdRng;
use rand::{Rng as _, RngExt as _, SeedableRng as _};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use super::*;

mod arbitrary;
mod broken;
mod floats;
mod inside;
mod limits;

const CODECS: &[Codec] = &[
    Codec::Json,
    #[cfg(feature = "msgpack")]
    Codec::MessagePack,
];

const NO_CAP: usize = usize::MAX;

fn back<T: Serialize + DeserializeOwned>(value: &T, codec: Codec) -> Result<T, Undecodable> {
    let encoded = encode(value, codec, NO_CAP).unwrap();
    decode(encoded.form, encoded.option_depth, &encoded.bytes)
}

#[track_caller]
fn comes_back<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: T) {
    for codec in CODECS {
        assert_eq!(back(&value, *codec).as_ref(), Ok(&value), "{codec:?}");
    }
}

#[track_caller]
fn is_not_written(value: &dyn Encode, codec: Codec) {
    assert_eq!(encode(value, codec, NO_CAP), Err(NotStored::Unencodable));
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Unit;

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Empty {}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Field<T> {
    field: T,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Newtype<T>(T);

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
enum Plain {
    Unit,
    Newtype(Option<u8>),
    Tuple(u8, String),
    Struct { code: i32 },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
enum Untagged {
    Maybe(Option<u8>),
    Text(String),
    Object { number: f64 },
    Many(Vec<Untagged>),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind")]
enum Internal<T> {
    Unit,
    Struct { inner: T },
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "value")]
enum Adjacent {
    Unit,
    Maybe(Option<f32>),
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Flat<T> {
    before: u8,
    #[serde(flatten)]
    inner: T,
}

#[test]
fn values_come_back() {
    comes_back(());
    comes_back(Unit);
    comes_back(Empty {});
    comes_back(Field { field: () });
    comes_back(Newtype(0));
    comes_back(0_u8);
    comes_back(i64::MIN);
    comes_back(u64::MAX);
    comes_back(i128::MIN);
    comes_back(u128::MAX);
    comes_back(u128::from(u64::MAX) + 1);
    comes_back(false);
    comes_back(true);
    comes_back('\0');
    comes_back('🦀');
    comes_back(String::new());
    comes_back("\0\u{7f}\"\\\n é 🦀 \u{2028}\u{ffff}".to_owned());
    comes_back(Vec::<u8>::new());
    comes_back(vec![(), ()]);
    comes_back(vec![0_u8, 255]);
    comes_back(CString::new("bytes").unwrap());
    comes_back(HashMap::<String, u8>::new());
    comes_back(BTreeMap::from([(i128::MIN, 'a'), (i128::MAX, 'b')]));
    comes_back(BTreeMap::from([(false, 'a'), (true, 'b')]));
    comes_back(BTreeMap::from([(Plain::Unit, 'a')]));
    comes_back(vec![('k', Unit)]);
    comes_back((1_u8, "two".to_owned(), [3_i8; 3]));
    comes_back(std::time::Duration::MAX);
    comes_back("::1".parse::<IpAddr>().unwrap());
    comes_back(Ok::<(), String>(()));
    comes_back(Err::<(), String>("no".to_owned()));
}

#[test]
fn enums_come_back() {
    comes_back(Plain::Unit);
    comes_back(Plain::Newtype(None));
    comes_back(Plain::Newtype(Some(0)));
    comes_back(Plain::Tuple(1, "one".to_owned()));
    comes_back(Plain::Struct { code: -1 });
    comes_back(Some(Plain::Newtype(None)));
    comes_back(Field {
        field: Some(Plain::Unit),
    });
}

#[test]
fn options_come_back_to_any_depth() {
    comes_back(None::<u8>);
    comes_back(None::<()>);
    comes_back(Some(()));
    comes_back(Some(Unit));
    comes_back(Some(0));
    comes_back(None::<Option<Option<()>>>);
    comes_back(Some(None::<Option<()>>));
    comes_back(Some(Some(None::<()>)));
    comes_back(Some(Some(Some(()))));
    comes_back(Box::new(Some(Cow::Borrowed("boxed"))));
}

#[test]
fn types_that_read_any_value_come_back() {
    comes_back(Value::Null);
    comes_back(Some(Value::Null));
    comes_back(json!({"a": [null, 1, -1, u64::MAX, 1.5, -0.0, "x", {}], "": []}));

    comes_back(Untagged::Maybe(None));
    comes_back(Untagged::Maybe(Some(7)));
    comes_back(Some(Untagged::Maybe(None)));
    comes_back(Some(Untagged::Maybe(Some(7))));
    comes_back(Untagged::Text(String::new()));
    comes_back(Untagged::Object { number: 0.1 + 0.2 });
    comes_back(Untagged::Many(vec![
        Untagged::Maybe(None),
        Untagged::Text("x".to_owned()),
    ]));

    comes_back(Internal::<()>::Unit);
    comes_back(Internal::Struct { inner: Some('x') });
    comes_back(Some(Internal::Struct {
        inner: Internal::Struct { inner: 1.5_f32 },
    }));
    comes_back(Internal::Struct {
        inner: "::1".parse::<IpAddr>().unwrap(),
    });
    comes_back(Adjacent::Unit);
    comes_back(Adjacent::Maybe(None));
    comes_back(Adjacent::Maybe(Some(0.1)));

    comes_back(Flat {
        before: 1,
        inner: Field {
            field: Some(Field { field: 'x' }),
        },
    });
    comes_back(Flat {
        before: 1,
        inner: None::<Field<u8>>,
    });
    comes_back(Flat {
        before: 1,
        inner: BTreeMap::from([("k".to_owned(), f64::MIN_POSITIVE)]),
    });
}

#[test]
fn a_type_written_as_an_option_and_read_as_its_content_comes_back() {
    #[derive(Debug, PartialEq, Clone, Serialize, Deserialize)]
    #[serde(into = "Option<u8>")]
    struct Always(u8);

    impl From<Always> for Option<u8> {
        fn from(always: Always) -> Self {
            Some(always.0)
        }
    }

    comes_back(Always(3));
    comes_back(Some(Always(3)));
}

const DOUBLES: [u64; 12] = [
    0x8000_0000_0000_0000, // -0.0
    0x0000_0000_0000_0001, // the smallest subnormal
    0x000f_ffff_ffff_ffff,
    0x0010_0000_0000_0000,
    0x7fef_ffff_ffff_ffff, // the largest
    0x3fd3_3333_3333_3334, // 0.1 + 0.2
    0x7ff0_0000_0000_0000, // infinity
    0xfff0_0000_0000_0000,
    0x7ff8_0000_0000_0000, // NaN
    0xfff8_0000_0000_0001,
    0x7ff0_0000_0000_0001, // a signalling one
    0xffff_ffff_ffff_ffff,
];

const SINGLES: [u32; 10] = [
    0x8000_0000,
    0x0000_0001,
    0x007f_ffff,
    0x7f7f_ffff,
    0x3dcc_cccd, // 0.1
    0x7f80_0000,
    0xff80_0000,
    0x7fc0_0000,
    0x7f80_0001,
    0xffff_ffff,
];

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sample {
    double: f64,
    single: Option<f32>,
    text: String,
    number: i128,
    list: Vec<Option<char>>,
    map: HashMap<u64, Plain>,
    next: Option<Box<Sample>>,
    r#enum: Plain,
    bytes: (Vec<u8>, [u16; 2]),
}

impl Sample {
    fn random(random: &mut StdRng) -> Self {
        fn text(random: &mut StdRng) -> String {
            let length = random.random_range(0..12);
            (0..length).map(|_| random.random::<char>()).collect()
        }
        fn plain(random: &mut StdRng) -> Plain {
            match random.random_range(0..4) {
                0 => Plain::Unit,
                1 => Plain::Newtype(random.random_bool(0.5).then(|| random.random())),
                2 => Plain::Tuple(random.random(), text(random)),
                _ => Plain::Struct {
                    code: random.random(),
                },
            }
        }
        let few = |random: &mut StdRng| 0..random.random_range(0..6);
        Self {
            double: loop {
                let double = f64::from_bits(random.next_u64());
                if double.is_finite() {
                    break double;
                }
            },
            single: random.random_bool(0.5).then(|| random.random()),
            text: text(random),
            number: random.random::<i128>() >> random.random_range(0..128),
            list: few(random)
                .map(|_| random.random_bool(0.5).then(|| random.random()))
                .collect(),
            map: few(random)
                .map(|_| (random.next_u64(), plain(random)))
                .collect(),
            next: random
                .random_bool(0.5)
                .then(|| Box::new(Self::random(random))),
            r#enum: plain(random),
            bytes: (
                few(random).map(|_| random.random()).collect(),
                random.random(),
            ),
        }
    }
}

#[test]
fn random_values_come_back() {
    let mut random = StdRng::seed_from_u64(3);
    for _ in 0..500 {
        // The floats have no negative zero and no NaN, so equal floats have equal bits.
        comes_back(Sample::random(&mut random));
    }
}

#[test]
fn the_forms_are_frozen() {
    fn encoded(form: Form, option_depth: u32, bytes: impl AsRef<[u8]>) -> Encoded {
        Encoded {
            form,
            option_depth,
            bytes: bytes.as_ref().to_vec(),
        }
    }
    let value = Field { field: Some(1.5) };
    let text = Some(Some("paid"));
    let nothing = Some(None::<u8>);
    let infinity = f64::INFINITY;
    let single = Some(f32::NEG_INFINITY);

    assert_eq!(
        encode(&value, Codec::Json, NO_CAP).unwrap(),
        encoded(Form::Json, 0, r#"{"field":1.5}"#)
    );
    assert_eq!(
        encode(&text, Codec::Json, NO_CAP).unwrap(),
        encoded(Form::Json, 2, r#""paid""#)
    );
    assert_eq!(
        encode(&nothing, Codec::Json, NO_CAP).unwrap(),
        encoded(Form::None, 1, "")
    );
    assert_eq!(
        encode(&infinity, Codec::Json, NO_CAP).unwrap(),
        encoded(Form::Bits, 0, "7ff0000000000000")
    );
    assert_eq!(
        encode(&single, Codec::Json, NO_CAP).unwrap(),
        encoded(Form::Bits, 1, "ff800000")
    );

    #[cfg(feature = "msgpack")]
    {
        assert_eq!(
            encode(&value, Codec::MessagePack, NO_CAP).unwrap(),
            encoded(
                Form::MessagePack,
                0,
                b"\x81\xa5field\xcb\x3f\xf8\0\0\0\0\0\0"
            )
        );
        assert_eq!(
            encode(&nothing, Codec::MessagePack, NO_CAP).unwrap(),
            encoded(Form::None, 1, "")
        );
        assert_eq!(
            encode(&infinity, Codec::MessagePack, NO_CAP).unwrap(),
            encoded(Form::MessagePack, 0, b"\xcb\x7f\xf0\0\0\0\0\0\0")
        );
        assert_eq!(
            encode(&single, Codec::MessagePack, NO_CAP).unwrap(),
            encoded(Form::MessagePack, 1, b"\xca\xff\x80\0\0")
        );
    }
}

#[test]
fn a_form_is_read_by_its_name() {
    for form in Form::ALL {
        assert_eq!(Form::from_name(form.name().as_bytes()), Some(form));
    }
    assert_eq!(Form::from_name(b"JSON"), None);
    assert_eq!(Form::from_name(b"-"), None);
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
enum Chain {
    End,
    Next(Box<Chain>),
}
