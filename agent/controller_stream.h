// File: agent/controller_stream.h
//
// One attempt to speak to the controller: over a stream to itself, or over one to a relay, where
// all is sealed with the key of the session. The same frames go up and down either way.
//
//   std::shared_ptr<ControllerStream> stream = ControllerStream::Direct(listener, channel, token);
//   stream->Begin();
//   stream->Write(frame);      // the next one after on_written
//
// A relayed frame that is not sealed as it should be ends the stream: the relay is none.
//
// Thread-safety: on the executor of the listener, where its functions are called too. Cost: two
// messages of gRPC's; sealing takes some microseconds a frame.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "asterism/v1/agent.pb.h"
#include "base/executor.h"

namespace grpc {
class Channel;
}

namespace asterism::agent {

// In the certificate of all agents.
inline constexpr char kAgentName[] = "asterism-agent";

class ControllerStream {
 public:
  struct Listener {
    base::Executor* executor;
    std::function<void(const v1::ControllerFrame&)> on_frame;
    std::function<void()> on_written;
    std::function<void()> on_broken;  // nothing more comes; on_end follows after Abandon
    // `crowded`: there is no room, and who comes again soon makes it worse.
    std::function<void(const std::string& why, bool crowded)> on_end;
  };

  static std::shared_ptr<ControllerStream> Direct(Listener listener,
                                                  std::shared_ptr<grpc::Channel> channel,
                                                  const std::string& token);
  static std::shared_ptr<ControllerStream> Relayed(Listener listener,
                                                   std::shared_ptr<grpc::Channel> channel,
                                                   const v1::RelayOffer& offer);
  virtual ~ControllerStream() = default;

  virtual void Begin() = 0;
  virtual void Write(const v1::AgentFrame& frame) = 0;
  // Nothing is told after it: gRPC's threads may have words of this stream when its owner, and the
  // executor, are gone.
  virtual void Silence() = 0;
  // Nothing is written after it.
  virtual void Abandon() = 0;
};

}  // namespace asterism::agent
