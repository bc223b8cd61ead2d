// A server with known faults, against which the harness is tested: it speaks the part of parley.v1
// that the harness uses, delivers after a known delay, and does wrong exactly where it is told to.
// Called by main and the self-test. It stores nothing and is never a product.
#pragma once

#include <cstdint>
#include <string>

#include "client/clock.hpp"

namespace parley::bench {

/// A delivery: the message's number (1 is the first that is sent) and the receiver's (1 is the
/// first session that entered that room). Message 0: nowhere.
struct FaultAt {
  std::uint64_t message = 0;
  std::uint64_t receiver = 0;
};

struct FakeOptions {
  std::string listen = "127.0.0.1:0";
  nanos delay = 0;     // from the request to each delivery
  FaultAt drop;        // this delivery never happens
  FaultAt duplicate;   // happens twice
  FaultAt swap;        // comes after the receiver's next one
  FaultAt misroute;    // goes also to a session of another room (`receiver` is not used)
  FaultAt stall;       // at this message the whole server stops for `receiver` ms
  FaultAt refuse;      // this message is refused with `overloaded`
  FaultAt miscount;    // the unread counters of passive sessions are one too high from here on
  FaultAt drop_event;  // of a member.joined before this message, this receiver hears nothing
};

/// "MESSAGE:RECEIVER"; throws Failure.
FaultAt parse_fault(const std::string& text);

int serve_fake(const FakeOptions& options);

}  // namespace parley::bench
