// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Follows all objects of a kind, with pauses that grow while the API does not answer.
//!
//! kube's own back-off starts anew with the event that begins each list, so that it asks about each second
//! for as long as the API is away. A thousand nodes that do so keep the API from coming back.

use std::fmt::Debug;
use std::time::Duration;

use futures::StreamExt as _;
use kube::Resource;
use kube::api::Api;
use kube::runtime::watcher::{Config, Error, Event, watcher};
use serde::de::DeserializeOwned;

/// The first and the longest pause.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Hands over each event and each error, until the stream ends, which it does not do by itself.
pub async fn follow<K>(api: Api<K>, config: Config, mut on: impl FnMut(Result<Event<K>, &Error>))
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let [first, longest] = PAUSES;
    let mut pause = first;
    let mut events = watcher(api, config).boxed();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                // This one comes before the API has answered.
                if !matches!(event, Event::Init) {
                    pause = first;
                }
                on(Ok(event));
            }
            Err(error) => {
                on(Err(&error));
                tokio::time::sleep(pause.mul_f64(0.5 + 0.5 * fastrand::f64())).await;
                pause = (pause * 2).min(longest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Node;
    use kube::Client;

    use super::*;

    /// Ten minutes of the clock of tokio, which goes on when nothing else is to be done.
    #[tokio::test(start_paused = true)]
    async fn an_api_that_is_away_is_asked_less_and_less() {
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut config = kube::Config::new(format!("http://127.0.0.1:{port}").parse().unwrap());
        config.default_retry = false;
        let api: Api<Node> = Api::all(Client::try_from(config).unwrap());
        let mut errors = 0;
        let count = |event: Result<Event<Node>, &Error>| errors += u32::from(event.is_err());
        let ten_minutes = Duration::from_secs(600);
        assert!(
            tokio::time::timeout(ten_minutes, follow(api, Config::default(), count)).await.is_err()
        );
        assert!((15..=50).contains(&errors), "{errors}");
    }
}
