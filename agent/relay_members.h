// File: agent/relay_members.h
//
// What a relay carries: which members are joined, what of theirs waits for the controller, and who
// gets what comes back. It looks into no frame, and keeps at most two of a member: one that has
// more to say waits, and nothing piles up.
//
//   RelayMembers members;
//   members.Open(/*members_max=*/63);
//   members.OnFrame(stream, frame);
//   v1::SealedFrames batch;
//   if (members.urgency() == RelayMembers::Urgency::kNow && members.Take(batch)) link.Write(batch);
//   members.Deliver(answers);
//
// Bounds: members_max members, two frames of each; four times as many entries wait in all, with
// those of members that have gone, and until there is room nobody joins.
//
// Thread-safety: none; on the agent's executor. Cost: O(log members) a frame.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "asterism/v1/relay.pb.h"

namespace asterism::agent {

// The stream of somebody who has called the relay.
class MemberStream {
 public:
  virtual ~MemberStream() = default;
  // One more frame is wanted. The first one is wanted without it.
  virtual void ReadNext() = 0;
  // False: it does not read what was written before.
  [[nodiscard]] virtual bool Write(v1::SealedFrame frame) = 0;
  virtual void End(const absl::Status& status) = 0;
};

class RelayMembers {
 public:
  // Of a batch; one frame may be larger.
  static constexpr size_t kBatchBytes = size_t{256} << 10;
  static constexpr size_t kFramesOfAMember = 2;

  enum class Urgency { kNothing, kCanWait, kNow };

  // 0: nobody may join, as in the beginning. Those that have joined stay.
  void Open(size_t members_max) { members_max_ = members_max; }
  void OnFrame(const std::shared_ptr<MemberStream>& stream, v1::SealedFrame frame);
  void OnEnd(const std::shared_ptr<MemberStream>& stream);

  Urgency urgency() const;
  // False: nothing waits. What was taken is forgotten here.
  bool Take(v1::SealedFrames& batch);
  // Frames for members that have gone are dropped.
  void Deliver(const v1::SealedFrames& batch);
  // Sends all away and forgets them, and what waits of theirs. Nobody joins until Open.
  void EndAll(const absl::Status& status);

  size_t size() const { return members_.size(); }

 private:
  struct Member {
    std::shared_ptr<MemberStream> stream;
    size_t waiting = 0;
  };
  struct Waiting {
    uint64_t session = 0;
    bool ended = false;  // else there is a frame
    v1::SealedFrame frame;
  };

  absl::Status Join(const std::shared_ptr<MemberStream>& stream, uint64_t session);

  size_t members_max_ = 0;
  std::map<uint64_t, Member> members_;                // by session
  std::map<const MemberStream*, uint64_t> sessions_;  // of those that have joined
  std::deque<Waiting> waiting_;
  size_t urgent_ = 0;  // of those that wait
};

}  // namespace asterism::agent
