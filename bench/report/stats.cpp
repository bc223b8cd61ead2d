// Judging a recording. See stats.hpp.
#include "report/stats.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <unordered_map>

namespace parley::bench {

double percentile(const std::vector<double>& sorted, std::size_t missing, double q) {
  const std::size_t n = sorted.size() + missing;
  if (n == 0) return 0;
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(n)));
  const std::size_t at = rank == 0 ? 0 : rank - 1;
  return at < sorted.size() ? sorted[at] : infinite;
}

Summary summarize(std::vector<double> values, std::size_t missing) {
  Summary s;
  std::sort(values.begin(), values.end());
  s.count = values.size() + missing;
  s.missing = missing;
  if (s.count == 0) return s;
  s.avg = missing > 0 ? infinite
                      : std::accumulate(values.begin(), values.end(), 0.0) /
                            static_cast<double>(values.size());
  s.min = values.empty() ? infinite : values.front();
  s.p50 = percentile(values, missing, 0.50);
  s.p95 = percentile(values, missing, 0.95);
  s.p99 = percentile(values, missing, 0.99);
  s.max = missing > 0 ? infinite : values.back();
  return s;
}

namespace {

// The active sessions of each room.
std::unordered_map<std::uint32_t, std::vector<std::uint32_t>>
active_by_room(const std::vector<SessionPlan>& sessions) {
  std::unordered_map<std::uint32_t, std::vector<std::uint32_t>> out;
  for (std::uint32_t i = 0; i < sessions.size(); ++i)
    if (sessions[i].enter) out[sessions[i].room].push_back(i);
  return out;
}

std::uint64_t pair_key(std::uint32_t session, std::uint32_t message) {
  return static_cast<std::uint64_t>(session) << 32U | message;
}

}  // namespace

Analysis analyse(const Recording& rec, const std::vector<SessionPlan>& sessions,
                 const Protocol& protocol) {
  Analysis a;
  const auto active = active_by_room(sessions);
  const std::size_t n = rec.sent.size();
  nanos first_send = 0;
  for (const auto& s : rec.sent) {
    if (s.at == 0) {
      ++a.unsent;
      continue;
    }
    ++a.sent;
    if (first_send == 0 || s.at < first_send) first_send = s.at;
  }

  // First arrival of each (session, message), and everything that is wrong with the others.
  std::unordered_map<std::uint64_t, nanos> first;
  first.reserve(rec.deliveries.size());
  std::unordered_map<std::uint64_t, std::uint64_t> highest;  // last seq or message seen
  std::unordered_map<std::uint32_t, std::vector<std::pair<std::uint64_t, std::uint64_t>>> seqs;
  std::vector<nanos> first_at(n, 0);
  std::vector<nanos> last_at(n, 0);
  nanos end = first_send;
  for (const auto& d : rec.deliveries) {
    const SessionPlan& who = sessions[d.session];
    const bool is_message = d.message != no_message || d.foreign;
    const bool known = d.message != no_message && d.message < n && rec.sent[d.message].at != 0;
    const bool own = known && rec.sent[d.message].session == d.session;
    Faults& faults = own ? a.echo_faults : a.listener_faults;
    if (d.foreign || (is_message && !known)) {
      ++faults.misrouted;
      continue;
    }
    if (d.room != who.room || (known && rec.sent[d.message].room != who.room) ||
        (!who.enter && !own)) {
      ++faults.misrouted;
      continue;
    }
    if (protocol.numbers_events() && d.seq > 0)
      seqs[d.session].emplace_back(d.from_seq > 0 ? d.from_seq : d.seq, d.seq);
    if (known) {
      const auto [at, fresh] = first.emplace(pair_key(d.session, d.message), d.at);
      if (!fresh) {
        ++faults.duplicate;
        continue;
      }
      first_at[d.message] = first_at[d.message] == 0 ? d.at : std::min(first_at[d.message], d.at);
      last_at[d.message] = std::max(last_at[d.message], d.at);
      end = std::max(end, d.at);
    }
    // Without the server's numbers only each sender's own order can be held against it.
    const std::uint64_t order = d.seq > 0 ? d.seq : d.message + 1ULL;
    std::uint64_t& seen =
        highest[pair_key(d.session, d.seq > 0 ? no_message : rec.sent[d.message].session)];
    if (order < seen)
      ++faults.out_of_order;
    else
      seen = order;
  }

  // Expected against first arrivals.
  std::vector<double> all;
  std::vector<double> echo;
  std::vector<double> listeners;
  std::vector<double> skew;
  std::vector<double> late;
  std::size_t echo_missing = 0;
  std::size_t listener_missing = 0;
  std::size_t skew_missing = 0;
  a.echo_series.assign(n, infinite);
  a.first_series.assign(n, infinite);
  a.last_series.assign(n, infinite);
  a.sent_at_s.assign(n, 0);
  for (std::uint32_t m = 0; m < n; ++m) {
    const Sent& s = rec.sent[m];
    if (s.at == 0) continue;
    late.push_back(to_ms(s.at - s.due));
    a.sent_at_s[m] = to_s(s.at - first_send);
    bool whole = true;
    const auto expect = [&](std::uint32_t session) {
      ++a.expected;
      const bool own = session == s.session;
      const auto at = first.find(pair_key(session, m));
      if (at == first.end()) {
        whole = false;
        ++(own ? echo_missing : listener_missing);
        ++(own ? a.echo_faults : a.listener_faults).lost;
        return;
      }
      ++a.received;
      const double took = to_ms(at->second - s.at);
      all.push_back(took);
      (own ? echo : listeners).push_back(took);
      if (own) a.echo_series[m] = took;
    };
    bool sender_is_active = false;
    if (const auto room = active.find(s.room); room != active.end())
      for (const auto session : room->second) {
        expect(session);
        sender_is_active = sender_is_active || session == s.session;
      }
    if (!sender_is_active) expect(s.session);
    if (first_at[m] > 0) a.first_series[m] = to_ms(first_at[m] - s.at);
    if (whole) {
      a.last_series[m] = to_ms(last_at[m] - s.at);
      skew.push_back(to_ms(last_at[m] - first_at[m]));
    } else {
      ++skew_missing;
    }
  }
  a.total_ms = to_ms(end - first_send);
  a.sorted_all = all;
  std::sort(a.sorted_all.begin(), a.sorted_all.end());
  a.all = summarize(std::move(all), echo_missing + listener_missing);
  a.echo = summarize(std::move(echo), echo_missing);
  a.listeners = summarize(std::move(listeners), listener_missing);
  a.skew = summarize(std::move(skew), skew_missing);
  a.late = summarize(std::move(late));
  const auto mean_of = [&](std::size_t from, std::size_t to) {
    double sum = 0;
    for (std::size_t i = from; i < to; ++i)
      sum += a.echo_series[i];
    return to > from ? sum / static_cast<double>(to - from) : 0;
  };
  a.first_5_avg = mean_of(0, std::min<std::size_t>(5, n));
  a.last_5_avg = mean_of(n > 5 ? n - 5 : 0, n);

  // Answers.
  std::vector<double> ack;
  std::set<std::uint32_t> answered;
  for (const auto& k : rec.acks) {
    if (k.message >= n || rec.sent[k.message].at == 0) continue;
    if (!answered.insert(k.message).second) continue;
    if (k.ok) {
      ++a.accepted;
      ack.push_back(to_ms(k.at - rec.sent[k.message].at));
    }
  }
  a.refused = rec.refusals;
  const bool acks = protocol.acknowledges();
  a.ack = summarize(std::move(ack), acks ? a.sent - a.accepted : 0);
  const std::uint64_t failed = acks ? n - a.accepted : a.unsent + echo_missing;
  a.error_rate = n > 0 ? static_cast<double>(failed) / static_cast<double>(n) : 0;

  // Numbered events that are no messages: a hole between the first and the last seq of a session.
  if (protocol.numbers_events()) {
    std::unordered_map<std::uint32_t, std::uint64_t> lost_of;
    for (std::uint32_t m = 0; m < n; ++m) {
      if (rec.sent[m].at == 0) continue;
      const auto room = active.find(rec.sent[m].room);
      if (room == active.end()) continue;
      for (const auto session : room->second)
        if (first.find(pair_key(session, m)) == first.end()) ++lost_of[session];
    }
    for (auto& [session, list] : seqs) {
      std::sort(list.begin(), list.end());
      std::uint64_t holes = 0;
      std::uint64_t reached = list.front().second;
      for (const auto& [from, to] : list) {
        if (from > reached + 1) holes += from - reached - 1;
        reached = std::max(reached, to);
      }
      // A hole that is a lost message has been counted as such already.
      const std::uint64_t lost = lost_of[session];
      a.events_missing += holes > lost ? holes - lost : 0;
    }
  }

  // Passive sessions: the last counter must be exact, and tells how long a message took to count.
  std::unordered_map<std::uint32_t, std::vector<const UnreadNotice*>> notices;
  for (const auto& u : rec.unread)
    notices[u.session].push_back(&u);
  std::unordered_map<std::uint32_t, std::uint64_t> seq_of;
  for (const auto& k : rec.acks)
    if (k.ok) seq_of[k.message] = k.seq;
  std::unordered_map<std::uint32_t, std::uint64_t> sent_in;
  std::unordered_map<std::uint32_t, std::uint64_t> last_in;
  for (std::uint32_t m = 0; m < n; ++m) {
    if (rec.sent[m].at == 0) continue;
    ++sent_in[rec.sent[m].room];
    std::uint64_t& last = last_in[rec.sent[m].room];
    last = std::max(last, seq_of[m]);
  }
  std::vector<double> unread;
  std::size_t unread_missing = 0;
  for (std::uint32_t i = 0; i < sessions.size(); ++i) {
    const SessionPlan& who = sessions[i];
    if (who.enter || sent_in[who.room] == 0) continue;
    auto& list = notices[i];
    if (list.empty() || list.back()->last_seq < last_in[who.room] ||
        list.back()->room != who.room ||
        list.back()->unread != who.unread_before + sent_in[who.room])
      ++a.passive_wrong;
    std::size_t at = 0;
    for (std::uint32_t m = 0; m < n; ++m) {
      if (rec.sent[m].at == 0 || rec.sent[m].room != who.room) continue;
      while (at < list.size() && list[at]->last_seq < seq_of[m])
        ++at;
      if (at == list.size())
        ++unread_missing;
      else
        unread.push_back(to_ms(list[at]->at - rec.sent[m].at));
    }
  }
  a.unread = summarize(std::move(unread), unread_missing);

  // The instrument.
  std::vector<double> lag;
  lag.reserve(rec.lags.size());
  for (const auto l : rec.lags)
    lag.push_back(static_cast<double>(l) / 1e6);
  a.lag = summarize(std::move(lag));
  a.instrument_bound = a.lag.count == 0 || a.lag.p99 > std::max(a.all.p95 / 10, 0.1);

  // Read marks: from the delivery at the session to the answer of its mark.
  if (!rec.read_acks.empty() || rec.reads_sent > 0) {
    std::unordered_map<std::uint64_t, nanos> had;
    for (const auto& d : rec.deliveries)
      if (d.message != no_message)
        had.emplace(pair_key(d.session, static_cast<std::uint32_t>(d.seq)), d.at);
    std::vector<double> reads;
    for (const auto& r : rec.read_acks) {
      const auto at = had.find(pair_key(r.session, static_cast<std::uint32_t>(r.seq)));
      if (r.ok && at != had.end()) reads.push_back(to_ms(r.at - at->second));
    }
    const std::size_t missing = rec.reads_sent > reads.size() ? rec.reads_sent - reads.size() : 0;
    a.reads = summarize(std::move(reads), missing);
  }
  return a;
}

double p95_between(const Recording& rec, const std::vector<SessionPlan>& sessions, double from_s,
                   double until_s) {
  const auto active = active_by_room(sessions);
  std::unordered_map<std::uint64_t, nanos> first;
  for (const auto& d : rec.deliveries)
    if (d.message != no_message) first.emplace(pair_key(d.session, d.message), d.at);
  std::vector<double> took;
  std::size_t missing = 0;
  nanos start = 0;
  for (const auto& s : rec.sent)
    if (s.at > 0 && (start == 0 || s.at < start)) start = s.at;
  for (std::uint32_t m = 0; m < rec.sent.size(); ++m) {
    const Sent& s = rec.sent[m];
    const double t = to_s(s.at - start);
    if (s.at == 0 || t < from_s || t >= until_s) continue;
    const auto room = active.find(s.room);
    if (room == active.end()) continue;
    for (const auto session : room->second) {
      const auto at = first.find(pair_key(session, m));
      if (at == first.end())
        ++missing;
      else
        took.push_back(to_ms(at->second - s.at));
    }
  }
  std::sort(took.begin(), took.end());
  return percentile(took, missing, 0.95);
}

}  // namespace parley::bench
