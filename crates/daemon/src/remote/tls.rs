// SPDX-License-Identifier: Apache-2.0
//! TLS 1.3 between daemons. Both ends show raw public keys (RFC 7250), which the other one must know: there are no
//! certificates, names or authorities. Nothing is resumed and nothing is said early, so a recorded connection is of no use.

use std::net::Ipv4Addr;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, IpAddr, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::AlwaysResolvesServerRawPublicKeys;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, DigitallySignedStruct,
    DistinguishedName, Error, PeerIncompatible, ServerConfig, ServerConnection, SignatureScheme,
};
use wire::KeyEntry;

use crate::keys::{Fingerprint, Key, Known};

/// Bytes of plain text or ciphertext that a connection keeps until they can go.
const BUFFER: usize = 16 << 10;
/// What the exporter's secret is for.
const LABEL: &[u8] = b"EXPORTER-IP-NUMA-sessions";

/// What both ends of a connection know and nobody else: keys of sessions come of it.
#[derive(Clone, Copy)]
pub struct Secret([u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

struct Bytes<const N: usize>;

impl<const N: usize> ring::hkdf::KeyType for Bytes<N> {
    fn len(&self) -> usize {
        N
    }
}

impl Secret {
    /// A secret, for tests.
    #[cfg(test)]
    pub fn of(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// What shows to the other end of this connection that who made another one has this one, too, with this session.
    pub fn proof(&self, writer: u8, reader: u8, epoch: u8) -> Option<[u8; 32]> {
        let secret = ring::hkdf::Prk::new_less_safe(ring::hkdf::HKDF_SHA256, &self.0);
        let mut bytes = [0; 32];
        let about = [&b"IP-NUMA join"[..], &[writer, reader, epoch]];
        let expanded = secret.expand(&about, Bytes::<32>);
        expanded.and_then(|it| it.fill(&mut bytes)).ok()?;
        Some(bytes)
    }

    /// Keys and salts of a session, for the writer or the reader. They are bound to both numbers of the session and its epoch,
    /// of which one is another with each session of a connection; another connection has another secret. A session's keys
    /// are numbered from 0.
    pub fn session(
        &self,
        writer: u8,
        reader: u8,
        epoch: u8,
        of_writer: bool,
        number: u64,
    ) -> Option<KeyEntry> {
        let secret = ring::hkdf::Prk::new_less_safe(ring::hkdf::HKDF_SHA256, &self.0);
        let mut bytes = [0; 40];
        secret
            .expand(
                &[
                    b"IP-NUMA session",
                    &[writer, reader, epoch],
                    &number.to_be_bytes(),
                ],
                Bytes::<40>,
            )
            .and_then(|material| material.fill(&mut bytes))
            .ok()?;
        let (there, back) = bytes.split_at(20);
        let (tx, rx) = match of_writer {
            true => (there, back),
            false => (back, there),
        };
        Some(KeyEntry {
            tx_key: *tx.first_chunk()?,
            rx_key: *rx.first_chunk()?,
            tx_salt: *tx.last_chunk()?,
            rx_salt: *rx.last_chunk()?,
        })
    }
}

/// Makes connections safe.
#[derive(Debug)]
pub struct Tls {
    known: Arc<Known>,
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// Believes known keys.
#[derive(Debug)]
struct Verifier {
    known: Arc<Known>,
    provider: Arc<CryptoProvider>,
}

impl Tls {
    /// With this machine's key and those that it knows.
    ///
    /// # Errors
    /// None that could be helped.
    pub fn new(key: &Key, known: Known) -> Result<Self, Error> {
        let (known, provider) = (
            Arc::new(known),
            Arc::new(rustls::crypto::ring::default_provider()),
        );
        let own = CertificateDer::from(key.public().to_vec());
        let own = Arc::new(CertifiedKey::new(vec![own], Arc::clone(&key.signing)));
        let verifier = Arc::new(Verifier {
            known: Arc::clone(&known),
            provider: Arc::clone(&provider),
        });
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::clone(&verifier) as _)
            .with_client_cert_resolver(Arc::new(AlwaysResolvesClientRawPublicKeys::new(
                Arc::clone(&own),
            )));
        client.resumption = Resumption::disabled();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(AlwaysResolvesServerRawPublicKeys::new(own)));
        server.send_tls13_tickets = 0;
        Ok(Self {
            known,
            client: Arc::new(client),
            server: Arc::new(server),
        })
    }

    /// The end of a connection that this daemon makes.
    pub fn connect(&self, peer: Ipv4Addr) -> Result<Connection, Error> {
        let name = ServerName::IpAddress(IpAddr::V4(peer.into()));
        let made = ClientConnection::new(Arc::clone(&self.client), name)?;
        Ok(limited(made.into()))
    }

    /// The end of one that another daemon has made.
    pub fn accept(&self) -> Result<Connection, Error> {
        let made = ServerConnection::new(Arc::clone(&self.server))?;
        Ok(limited(made.into()))
    }

    /// Whether the key that a peer has shown is one of its address, at the moment.
    pub fn trusts(&self, peer: Ipv4Addr, connection: &Connection) -> bool {
        shown(connection).is_some_and(|key| self.known.allows(peer, key))
    }

    /// Whether the key that a peer has shown is one of its address; what the two share then.
    pub fn secret(&self, peer: Ipv4Addr, connection: &Connection) -> Result<Secret, String> {
        if !self.trusts(peer, connection) {
            return Err(unknown(peer, shown(connection)));
        }
        connection
            .export_keying_material([0; 32], LABEL, None)
            .map(Secret)
            .map_err(|error| error.to_string())
    }
}

/// The key that a peer has shown.
fn shown(connection: &Connection) -> Option<Fingerprint> {
    let shown = connection.peer_certificates().and_then(<[_]>::first);
    shown.map(|public| Fingerprint::of(public))
}

/// A sentence about a key that is none of a peer's.
fn unknown(peer: Ipv4Addr, shown: Option<Fingerprint>) -> String {
    let shown = shown.map_or_else(|| "none".to_owned(), |key| key.to_string());
    format!(
        "the key of {peer} is not known here, it is {shown}; if its machine's `ipnuma key` shows the same one, trust it with \
         `ipnuma key trust {peer} {shown}`"
    )
}

fn limited(mut connection: Connection) -> Connection {
    connection.set_buffer_limit(Some(BUFFER));
    connection
}

impl Verifier {
    fn signed(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(shown.as_ref());
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, algorithms)
    }

    fn schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

/// TLS 1.2 is not spoken.
fn too_old() -> Error {
    Error::PeerIncompatible(PeerIncompatible::Tls13RequiredForQuic)
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let ServerName::IpAddress(IpAddr::V4(peer)) = name else {
            return Err(CertificateError::NotValidForName.into());
        };
        let (peer, key) = (Ipv4Addr::from(*peer), Fingerprint::of(shown));
        match self.known.allows(peer, key) {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(Error::General(unknown(peer, Some(key)))),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        shown: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // Whether it is one of its address is asked when the address is known, before anything else is heard.
        match self.known.has(Fingerprint::of(shown)) {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(too_old())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        shown: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.signed(message, shown, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_have_the_same_keys_and_no_two_sessions_do() {
        let secret = Secret([7; 32]);
        let session = |secret: &Secret, numbers: [u8; 3], writer| {
            let [own, theirs, epoch] = numbers;
            secret.session(own, theirs, epoch, writer, 0).expect("keys")
        };
        let writer = session(&secret, [1, 2, 50], true);
        let reader = session(&secret, [1, 2, 50], false);
        assert_eq!(
            (writer.tx_key, writer.tx_salt),
            (reader.rx_key, reader.rx_salt)
        );
        assert_eq!(
            (writer.rx_key, writer.rx_salt),
            (reader.tx_key, reader.tx_salt)
        );
        let mut seen = vec![writer.tx_key, writer.rx_key];
        for numbers in [[1, 2, 51], [1, 3, 50], [2, 2, 50], [2, 1, 50]] {
            let other = session(&secret, numbers, true);
            seen.extend([other.tx_key, other.rx_key]);
        }
        for number in [1, 2, 1 << 32] {
            let next = secret.session(1, 2, 50, true, number).expect("keys");
            seen.extend([next.tx_key, next.rx_key]);
        }
        seen.push(session(&Secret([8; 32]), [1, 2, 50], true).tx_key);
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count, "a key was used twice");
    }
}
