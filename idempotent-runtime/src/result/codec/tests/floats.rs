//! Floats keep each bit, also those that JSON cannot write.

use super::*;

#[test]
fn floats_come_back_bit_for_bit() {
    let mut random = StdRng::seed_from_u64(1);
    for codec in CODECS.iter().copied() {
        let doubles = (0..2000).map(|_| random.next_u64());
        for bits in DOUBLES.into_iter().chain(doubles) {
            let float = f64::from_bits(bits);
            assert_eq!(back(&float, codec).unwrap().to_bits(), bits, "{codec:?}");
            let float = back(&Some(Some(float)), codec).unwrap().flatten();
            assert_eq!(float.map(f64::to_bits), Some(bits), "{codec:?}");
        }
        let singles = (0..2000).map(|_| random.next_u32());
        for bits in SINGLES.into_iter().chain(singles) {
            let float = f32::from_bits(bits);
            assert_eq!(back(&float, codec).unwrap().to_bits(), bits, "{codec:?}");
            let float = back(&Some(Some(float)), codec).unwrap().flatten();
            assert_eq!(float.map(f32::to_bits), Some(bits), "{codec:?}");
        }
    }
}

#[test]
fn finite_floats_inside_of_a_value_come_back_bit_for_bit() {
    let mut random = StdRng::seed_from_u64(2);
    for codec in CODECS.iter().copied() {
        let doubles = (0..2000).map(|_| random.next_u64());
        let doubles: Vec<f64> = (DOUBLES.into_iter().chain(doubles))
            .map(f64::from_bits)
            .filter(|float| float.is_finite())
            .collect();
        let singles = (0..2000).map(|_| random.next_u32());
        let singles: Vec<f32> = (SINGLES.into_iter().chain(singles))
            .map(f32::from_bits)
            .filter(|float| float.is_finite())
            .collect();
        let value = Flat {
            before: 0,
            inner: Field {
                field: (doubles, singles),
            },
        };
        let Field { field: found } = back(&value, codec).unwrap().inner;
        let bits = |floats: &[f64]| -> Vec<u64> { floats.iter().map(|f| f.to_bits()).collect() };
        assert_eq!(bits(&found.0), bits(&value.inner.field.0), "{codec:?}");
        let bits = |floats: &[f32]| -> Vec<u32> { floats.iter().map(|f| f.to_bits()).collect() };
        assert_eq!(bits(&found.1), bits(&value.inner.field.1), "{codec:?}");
    }
}
