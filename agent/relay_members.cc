#include "agent/relay_members.h"

#include <string>
#include <utility>

namespace asterism::agent {

absl::Status RelayMembers::Join(const std::shared_ptr<MemberStream>& stream, uint64_t session) {
  if (session == 0) {
    return absl::InvalidArgumentError("session: is missing");
  }
  if (members_max_ == 0) {
    return absl::UnavailableError("this agent is no relay at this moment");
  }
  if (members_.size() >= members_max_ || waiting_.size() >= 4 * members_max_) {
    return absl::ResourceExhaustedError("the relay has as many members as it may have");
  }
  if (!members_.try_emplace(session, Member{.stream = stream}).second) {
    return absl::AlreadyExistsError("another stream has this session");
  }
  sessions_[stream.get()] = session;
  return absl::OkStatus();
}

void RelayMembers::OnFrame(const std::shared_ptr<MemberStream>& stream, v1::SealedFrame frame) {
  const auto joined = sessions_.find(stream.get());
  if (joined == sessions_.end()) {
    if (const absl::Status status = Join(stream, frame.session()); !status.ok()) {
      stream->End(status);
      return;
    }
  } else if (joined->second != frame.session()) {
    stream->End(absl::InvalidArgumentError("session: is another one than that of the first frame"));
    return;
  }
  Member& member = members_.at(frame.session());
  urgent_ += frame.can_wait() ? 0 : 1;
  waiting_.push_back({.session = frame.session(), .frame = std::move(frame)});
  if (++member.waiting < kFramesOfAMember) {
    stream->ReadNext();
  }
}

void RelayMembers::OnEnd(const std::shared_ptr<MemberStream>& stream) {
  const auto joined = sessions_.find(stream.get());
  if (joined == sessions_.end()) {
    return;
  }
  waiting_.push_back({.session = joined->second, .ended = true, .frame = {}});
  ++urgent_;
  members_.erase(joined->second);
  sessions_.erase(joined);
}

RelayMembers::Urgency RelayMembers::urgency() const {
  return urgent_ > 0 ? Urgency::kNow : waiting_.empty() ? Urgency::kNothing : Urgency::kCanWait;
}

bool RelayMembers::Take(v1::SealedFrames& batch) {
  size_t bytes = 0;
  bool taken = false;
  while (!waiting_.empty()) {
    Waiting& next = waiting_.front();
    if (next.ended) {
      batch.add_ended(next.session);
      --urgent_;
    } else {
      const size_t size = next.frame.frame().size();
      if (taken && bytes + size > kBatchBytes) {
        break;
      }
      bytes += size;
      urgent_ -= next.frame.can_wait() ? 0 : 1;
      *batch.add_frames() = std::move(next.frame);
      const auto member = members_.find(next.session);
      if (member != members_.end() && member->second.waiting-- == kFramesOfAMember) {
        member->second.stream->ReadNext();
      }
    }
    waiting_.pop_front();
    taken = true;
  }
  return taken;
}

void RelayMembers::Deliver(const v1::SealedFrames& batch) {
  for (const v1::SealedFrame& frame : batch.frames()) {
    const auto member = members_.find(frame.session());
    if (member != members_.end() && !member->second.stream->Write(frame)) {
      member->second.stream->End(
          absl::ResourceExhaustedError("the member does not read what it is told"));
    }
  }
  for (const uint64_t session : batch.ended()) {
    if (const auto member = members_.find(session); member != members_.end()) {
      member->second.stream->End(absl::AbortedError("the controller has ended the session"));
    }
  }
}

void RelayMembers::EndAll(const absl::Status& status) {
  members_max_ = 0;
  for (const auto& [session, member] : std::exchange(members_, {})) {
    member.stream->End(status);
  }
  sessions_.clear();
  waiting_.clear();
  urgent_ = 0;
}

}  // namespace asterism::agent
