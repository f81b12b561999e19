//! The limits inside of a value, as listed at [`Codec`].

use super::*;

#[track_caller]
fn comes_back_as<T>(value: T, codec: Codec, other: T)
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    assert_eq!(back(&value, codec), Ok(other));
}

#[track_caller]
fn is_written_but_not_read<T>(value: T, codec: Codec)
where
    T: Serialize + DeserializeOwned + PartialEq + Debug,
{
    assert_eq!(back(&value, codec), Err(Undecodable::Mismatch));
}

#[test]
fn inside_of_a_value_some_of_nothing_is_none() {
    for codec in CODECS.iter().copied() {
        comes_back_as(
            Field {
                field: Some(None::<u8>),
            },
            codec,
            Field { field: None },
        );
        comes_back_as([Some(())], codec, [None]);
        comes_back_as(Newtype(Some(())), codec, Newtype(None));
        comes_back_as(Some((Some(None::<u8>), 1)), codec, Some((None, 1)));
    }
}

#[test]
fn inside_of_a_value_json_writes_null_for_more_than_none() {
    comes_back_as([Some(Unit)], Codec::Json, [None]);
    comes_back_as([Some(Value::Null)], Codec::Json, [None]);
    comes_back_as([Some(f64::NAN)], Codec::Json, [None]);
    comes_back_as([Some(f32::INFINITY)], Codec::Json, [None]);
    is_written_but_not_read([f64::NAN], Codec::Json);
    is_written_but_not_read(Newtype(f32::NEG_INFINITY), Codec::Json);
}

#[cfg(feature = "msgpack")]
#[test]
fn message_pack_keeps_unit_structs_and_floats_anywhere() {
    comes_back_as([Some(Unit)], Codec::MessagePack, [Some(Unit)]);
    for bits in DOUBLES {
        let [float] = back(&[Some(f64::from_bits(bits))], Codec::MessagePack).unwrap();
        assert_eq!(float.map(f64::to_bits), Some(bits));
    }
    for bits in SINGLES {
        let Newtype(float) = back(&Newtype(f32::from_bits(bits)), Codec::MessagePack).unwrap();
        assert_eq!(float.to_bits(), bits);
    }
}

#[test]
fn json_refuses_keys_that_are_not_text() {
    is_not_written(&BTreeMap::from([(Plain::Newtype(None), 1)]), Codec::Json);
    is_not_written(&BTreeMap::from([((1, 2), 1)]), Codec::Json);
    is_not_written(&BTreeMap::from([((), 1)]), Codec::Json);
    is_not_written(&BTreeMap::from([(Unit, 1)]), Codec::Json);
    is_not_written(&BTreeMap::from([(None::<u8>, 1)]), Codec::Json);
    is_not_written(
        &BTreeMap::from([(FloatKey(f64::NAN.to_bits()), 1)]),
        Codec::Json,
    );
}

/// A float that can be a key.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct FloatKey(u64);

impl Serialize for FloatKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(f64::from_bits(self.0))
    }
}

#[cfg(feature = "msgpack")]
#[test]
fn message_pack_keeps_any_key() {
    for key in [
        Plain::Unit,
        Plain::Newtype(None),
        Plain::Tuple(1, "one".to_owned()),
        Plain::Struct { code: 1 },
    ] {
        let map = BTreeMap::from([((key, [Some('x'), None]), 1)]);
        assert_eq!(back(&map, Codec::MessagePack).as_ref(), Ok(&map));
    }
}

#[test]
fn buffered_values_lose_numbers_of_128_bits_and_keys_that_are_not_text() {
    for codec in CODECS.iter().copied() {
        is_written_but_not_read(Internal::Struct { inner: i128::MAX }, codec);
        is_written_but_not_read(Internal::Struct { inner: 0_i128 }, codec);
        is_written_but_not_read(
            Flat {
                before: 0,
                inner: Field { field: u128::MAX },
            },
            codec,
        );
    }
    is_written_but_not_read(
        Flat {
            before: 0,
            inner: BTreeMap::from([(1_u8, 1)]),
        },
        Codec::Json,
    );
    is_written_but_not_read(
        Internal::Struct {
            inner: BTreeMap::from([(true, 1)]),
        },
        Codec::Json,
    );
}

#[cfg(feature = "msgpack")]
#[test]
fn message_pack_keeps_keys_in_buffered_values() {
    let value = Internal::Struct {
        inner: BTreeMap::from([(true, 1)]),
    };
    assert_eq!(back(&value, Codec::MessagePack).as_ref(), Ok(&value));
    let value = Flat {
        before: 0,
        inner: BTreeMap::from([(1_u8, 1)]),
    };
    assert_eq!(back(&value, Codec::MessagePack).as_ref(), Ok(&value));
}
