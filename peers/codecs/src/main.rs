//! bincode, postcard, rkyv, prost, flatbuffers and capnp: `PEER OPERATION VALUE MILLISECONDS`.

mod messages;
mod schemaless;
mod values;

use std::hint::black_box;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use channels::print_cost;
use prost::Message;
use rkyv::api::high::{HighSerializer, HighValidator};
use rkyv::bytecheck::CheckBytes;
use rkyv::rancor::Error;
use rkyv::ser::allocator::ArenaHandle;
use rkyv::util::AlignedVec;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Arguments.
pub struct Errand {
    peer: String,
    is_decoding: bool,
    time: Duration,
}

impl Errand {
    fn measure(&self, one: impl FnMut() -> Result<()>) -> Result<()> {
        print_cost(self.time, 1.0, one)
    }
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [peer, operation, value, milliseconds] = words.as_slice() else {
        bail!("say PEER OPERATION VALUE MILLISECONDS");
    };
    let errand = Errand {
        peer: peer.clone(),
        is_decoding: operation == "decode",
        time: Duration::from_millis(milliseconds.parse()?),
    };
    match value.split_once('/').unwrap_or((value, "")) {
        ("bytes", length) => {
            let value = values::byte_vector(length.parse().context("how many bytes?")?);
            if errand.bytes(&value.bytes.0)? {
                return Ok(());
            }
            errand.run(&value, &messages::ByteVector::from(value.clone()))
        }
        ("struct", "16") => errand.run(&values::Bytes16::of(1), &messages::Bytes16::of(1)),
        ("struct", "256") => errand.run(&values::Bytes256::of(1), &messages::Bytes256::of(1)),
        ("text", _) => {
            let value = values::text();
            if errand.text(&value.text)? {
                return Ok(());
            }
            errand.run(&value, &messages::Text::from(value.clone()))
        }
        ("points", _) => {
            errand.run::<_, messages::Points>(&values::points(), &values::points().into())
        }
        ("entry", _) => errand.run::<_, messages::Entry>(&values::entry(), &values::entry().into()),
        _ => bail!("there is no value {value}"),
    }
}

impl Errand {
    /// Runs the codecs that derive.
    fn run<T, M>(&self, value: &T, message: &M) -> Result<()>
    where
        T: Serialize + DeserializeOwned,
        T: for<'a> rkyv::Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Error>>,
        T::Archived: for<'a> CheckBytes<HighValidator<'a, Error>>,
        M: Message + Default,
    {
        match self.peer.as_str() {
            "bincode" => self.bincode(value),
            "postcard" => self.postcard(value),
            "rkyv" => self.rkyv(value),
            "prost" => self.prost(message),
            peer => bail!("{peer} has no such value"),
        }
    }

    fn bincode<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<()> {
        let config = bincode::config::standard().with_fixed_int_encoding();
        let mut buffer = vec![0; 1 << 17];
        let length = bincode::serde::encode_into_slice(value, &mut buffer, config)?;
        if !self.is_decoding {
            return self.measure(|| {
                bincode::serde::encode_into_slice(black_box(value), &mut buffer, config)?;
                black_box(&buffer);
                Ok(())
            });
        }
        self.measure(|| {
            let bytes = black_box(&buffer[..length]);
            black_box(bincode::serde::decode_from_slice::<T, _>(bytes, config)?);
            Ok(())
        })
    }

    fn postcard<T: Serialize + DeserializeOwned>(&self, value: &T) -> Result<()> {
        let mut buffer = vec![0; 1 << 17];
        let length = postcard::to_slice(value, &mut buffer)?.len();
        if !self.is_decoding {
            return self.measure(|| {
                black_box(postcard::to_slice(black_box(value), &mut buffer)?);
                Ok(())
            });
        }
        self.measure(|| {
            black_box(postcard::from_bytes::<T>(black_box(&buffer[..length]))?);
            Ok(())
        })
    }

    fn rkyv<T>(&self, value: &T) -> Result<()>
    where
        T: for<'a> rkyv::Serialize<HighSerializer<AlignedVec, ArenaHandle<'a>, Error>>,
        T::Archived: for<'a> CheckBytes<HighValidator<'a, Error>>,
    {
        let mut buffer = rkyv::to_bytes::<Error>(value)?;
        if !self.is_decoding {
            return self.measure(|| {
                let mut own = std::mem::take(&mut buffer);
                own.clear();
                buffer = rkyv::api::high::to_bytes_in::<_, Error>(black_box(value), own)?;
                black_box(&buffer);
                Ok(())
            });
        }
        self.measure(|| {
            black_box(rkyv::access::<T::Archived, Error>(black_box(&buffer))?);
            Ok(())
        })
    }

    fn prost<M: Message + Default>(&self, message: &M) -> Result<()> {
        let mut buffer = message.encode_to_vec();
        if !self.is_decoding {
            return self.measure(|| {
                buffer.clear();
                black_box(message).encode(&mut buffer)?;
                black_box(&buffer);
                Ok(())
            });
        }
        self.measure(|| {
            black_box(M::decode(black_box(&*buffer))?);
            Ok(())
        })
    }
}
