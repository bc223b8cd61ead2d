// See sqlite_writer.hpp. A batch ends committed, refused or unknown; nothing is ever guessed:
//  - an error before COMMIT: rolled back, refused;
//  - COMMIT says that the disk is full: the commit frame, which is written last, was not written:
//  refused;
//  - any other error of COMMIT: the connection is closed, a new one reads whether the batch stands
//  there. Before it is
//    called refused, another transaction must be on the disk, since it takes the failed one's place
//    in the WAL (which a later recovery might otherwise find). Before it is called committed, all
//    of the WAL must have been copied and synced, since a failed fsync is never tried again and
//    trusted.
#include "storage/sqlite_writer.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "schemas/log.hpp"
#include "schemas/time.hpp"
#include "storage/accounts.hpp"
#include "storage/epoch.hpp"
#include "storage/room_writer.hpp"
#include "storage/sql.hpp"
#include "storage/statements.hpp"

namespace parley::storage {
namespace {

constexpr std::int64_t wal_warn_pages = 12288;  // 48 MiB; the WAL is to stay below 64

/// COMMIT failed in a way that leaves open whether it happened.
struct commit_unknown {
  sql_error why;
};

void refuse_from(share_result& out, std::size_t first, const failure& why) {
  for (std::size_t i = first; i < out.results.size(); ++i) {
    out.results[i] = {};
    out.results[i].what = outcome::refused;
    out.results[i].why = why;
  }
}

/// Errors after which no other share can fare better, or after which SQLite gives the transaction
/// up.
bool fails_all(const sql_error& e) {
  return e.code == lite::full || e.code == lite::io_error || e.code == lite::nomem ||
         e.code == lite::cannot_open || e.code == lite::read_only || e.code == lite::not_a_database;
}

/// One connection and what is prepared on it; thrown away as a whole after an error.
struct session {
  connection c;
  statement begin, commit, savepoint, release, rollback_to, rollback, probe;
  std::unique_ptr<room_writer> rooms;
  account_reader accounts;
  std::int64_t wal_pages = 0;  // in the WAL after the last commit
  std::int64_t copied = 0;     // of them already in the database

  session(const sqlite_writer_options& o, metrics& m)
      : c(configured(o, m)), begin(c, sql::begin), commit(c, sql::commit),
        savepoint(c, sql::savepoint), release(c, sql::release), rollback_to(c, sql::rollback_to),
        rollback(c, sql::rollback),
        probe(c, "insert into meta (k, v) values ('probe', '1') on conflict (k) do update"
                 " set v = cast(cast(v as integer) + 1 as text)"),
        rooms(std::make_unique<room_writer>(c, m)), accounts(c) {
    lite::watch_wal(c.session(), &wal_pages);
  }

  static connection configured(const sqlite_writer_options& o, metrics& m) {
    connection c(o.path, connection::mode::read_write, &m);
    c.run("pragma journal_mode=wal");
    c.run(faults_built_in && o.inject.sync_off != 0 ? "pragma synchronous=off"
          : o.full                                  ? "pragma synchronous=full"
                                                    : "pragma synchronous=normal");
    c.run("pragma wal_autocheckpoint=0");
    c.run("pragma journal_size_limit=67108864");
    c.run("pragma cache_size=-" + std::to_string(o.cache_kib));
    c.run("pragma temp_store=memory");
    if (o.max_pages > 0) c.run("pragma max_page_count=" + std::to_string(o.max_pages));
    return c;
  }
};

class sqlite_writer final : public writer_store {
 public:
  sqlite_writer(sqlite_writer_options options, metrics& m)
      : o_(std::move(options)), m_(m), s_(std::make_unique<session>(o_, m_)) {}

  ~sqlite_writer() override {
    // A clean end, so that a relaxed run's numbers are known to be on the disk.
    if (!healthy_) return;
    try {
      s_->c.run("pragma synchronous=full");
      end_run(s_->c);
      checkpoint();
    } catch (const sql_error& e) {
      log_error("close", e);
    }
  }

  std::vector<share_result> commit(const std::vector<room_share>& shares) override {
    const auto started = steady_ns();
    std::vector<share_result> out(shares.size());
    std::int64_t changes = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
      out[i].results.resize(shares[i].changes.size());
      changes += static_cast<std::int64_t>(shares[i].changes.size());
    }
    m_.batches.add();
    m_.group_size.observe_size(changes);
    try {
      reopen_if_lost();
      transaction(shares, out);
      commit_now(hangs(shares));
      healthy_ = true;
    } catch (const commit_unknown& e) {
      lose(e.why);
      settle(shares, out);
    } catch (const sql_error& e) {
      log_error("commit", e);
      give_up(e);
      for (auto& one : out)
        refuse_from(one, 0, to_failure(e));
    }
    m_.commit_seconds.observe_ns(steady_ns() - started);
    last_commit_ns_ = steady_ns();
    if (s_ && s_->wal_pages - s_->copied >= o_.checkpoint_pages) checkpoint_quietly();
    return out;
  }

  result<account> apply(const account_change& change) override {
    for (int attempt = 0;; ++attempt) {
      try {
        reopen_if_lost();
        // A second attempt follows a COMMIT of unknown outcome: what can only be made once may be
        // there already.
        if (attempt > 0)
          if (auto made = made_before(change)) return std::move(*made);
        s_->begin.execute();
        auto done = apply_account_change(s_->c, s_->accounts, m_, change);
        if (!done) {
          s_->rollback.execute();
          return done;
        }
        commit_now(false);
        healthy_ = true;
        return done;
      } catch (const commit_unknown& e) {
        lose(e.why);
        if (!secure(steady_ns() + o_.unknown_ms * 1'000'000) || attempt == 2)
          return to_failure(e.why);
      } catch (const sql_error& e) {
        log_error("account change", e);
        give_up(e);
        return to_failure(e);
      }
    }
  }

  std::int64_t idle() override {
    try {
      reopen_if_lost();
      const auto now = steady_ns();
      if (now >= next_cleaning_ns_) {
        next_cleaning_ns_ = now + std::int64_t{600} * 1'000'000'000;
        long long at = system_now_ms();
        statement expired(s_->c, "select count(*) from revocations where expires_at <= :at",
                          soci::use(at), soci::into(expired_));
        if (expired.first() && expired_ > 0) {
          statement st(s_->c, "delete from revocations where expires_at <= :at", soci::use(at));
          m_.rows_written.add(st.change());
        }
      }
      const auto waiting = s_->wal_pages - s_->copied;
      const bool quiet = now - last_commit_ns_ >= std::int64_t{2} * 1'000'000'000;
      if (waiting >= o_.idle_checkpoint_pages || (waiting > 0 && quiet)) checkpoint();
      return s_->wal_pages > s_->copied ? 1000 : 60000;
    } catch (const sql_error& e) {
      log_error("housekeeping", e);
      give_up(e);
      return 1000;
    }
  }

  bool healthy() override {
    if (healthy_) return true;
    try {
      reopen_if_lost();
      probe();
      healthy_ = true;
    } catch (const sql_error& e) {
      give_up(e);
    } catch (const commit_unknown& e) {
      lose(e.why);
    }
    return healthy_;
  }

 private:
  // ---- a batch

  void transaction(const std::vector<room_share>& shares, std::vector<share_result>& out) {
    const bool alone = shares.size() == 1;
    s_->begin.execute();
    for (std::size_t i = 0; i < shares.size(); ++i) {
      std::size_t limit = shares[i].changes.size();
      for (;;) {
        std::optional<change_failed> failed;
        if (!alone) s_->savepoint.execute();
        try {
          s_->rooms->apply(shares[i], limit, out[i]);
          if (!alone) s_->release.execute();
        } catch (const change_failed& f) {
          failed = f;
        } catch (const sql_error& e) {
          // What fails one share only: a constraint, a value too large, a damaged page of this
          // room.
          if (fails_all(e) || lite::autocommit(s_->c.session())) throw;
          log_error("share", e);
          failed = change_failed{s_->rooms->at(), to_failure(e)};
        }
        if (!failed) break;
        // What stood before the failed change still stands: the share is taken back and applied up
        // to there.
        log::warn("storage", "a change was refused",
                  {{"room", std::to_string(raw(shares[i].room))}, {"why", failed->why.message}});
        s_->rooms = nullptr;  // SOCI may have thrown its statements away
        s_->rooms = std::make_unique<room_writer>(s_->c, m_);
        if (alone) {
          s_->rollback.execute();
          s_->begin.execute();
        } else {
          s_->rollback_to.execute();
          s_->release.execute();
        }
        limit = failed->index;
        refuse_from(out[i], limit, failed->why);
        if (limit == 0) break;
      }
    }
  }

  void commit_now(bool hang) {
    const auto number = ++commit_number_;
    if (faults_built_in && o_.inject.commit_delay_ms > 0) sleep_ms(o_.inject.commit_delay_ms);
    if (hang) sleep_ms(o_.inject.storage_hang_ms);
    if (faults_built_in && o_.inject.commit_fail > 0 && number % o_.inject.commit_fail == 0)
      throw commit_unknown{sql_error(lite::io_error, "injected: COMMIT failed")};
    try {
      s_->commit.execute();
    } catch (const sql_error& e) {
      // Nothing was written where another holds a lock; a full disk leaves no commit frame behind.
      if (e.code != lite::full && e.code != lite::busy) throw commit_unknown{e};
      m_.commit_failures.add();
      throw;
    }
    m_.commits.add();
    if (s_->wal_pages < s_->copied) s_->copied = 0;  // the WAL was begun anew
    if (faults_built_in && o_.inject.commit_lost_answer > 0 &&
        number % o_.inject.commit_lost_answer == 0)
      throw commit_unknown{sql_error(lite::io_error, "injected: COMMIT's answer was lost")};
  }

  bool hangs(const std::vector<room_share>& shares) const {
    if (!faults_built_in || o_.inject.storage_hang_ms == 0) return false;
    for (const auto& share : shares)
      for (const auto& change : share.changes)
        if (const auto* a = std::get_if<append_message>(&change.what);
            a != nullptr && a->text == "!hang")
          return true;
    return false;
  }

  std::optional<account> made_before(const account_change& change) {
    if (const auto* u = std::get_if<new_user>(&change)) return s_->accounts.by_id(u->id);
    if (const auto* i = std::get_if<make_invitation>(&change)) {
      std::string code = i->code;
      statement st(s_->c, "select code from invitations where code = :code", soci::use(code),
                   soci::into(code));
      if (st.first()) return account{};
    }
    return std::nullopt;
  }

  // ---- errors

  void lose(const sql_error& why) {
    log_error("COMMIT", why);
    m_.commit_failures.add();
    healthy_ = false;
    s_ = nullptr;
  }

  /// After an error outside COMMIT: nothing of the transaction stands. An I/O error ends the
  /// connection too.
  void give_up(const sql_error& why) {
    if (why.code != lite::busy) healthy_ = false;
    if (!s_) return;
    try {
      if (!lite::autocommit(s_->c.session())) s_->c.run("rollback");
    } catch (const sql_error& e) {
      log_error("rollback", e);
    }
    s_ = nullptr;  // its statements may be gone; the next use opens anew
  }

  void reopen_if_lost() {
    if (!s_) s_ = std::make_unique<session>(o_, m_);
  }

  /// Writes something and commits it.
  void probe() {
    s_->begin.execute();
    s_->probe.execute();
    commit_now(false);
  }

  /// Opens anew and makes sure that what can be read now is what a recovery would find. False after
  /// the deadline.
  bool secure(std::int64_t deadline_ns) {
    for (;;) {
      try {
        reopen_if_lost();
        probe();
        if (checkpoint()) {
          healthy_ = true;
          return true;
        }
      } catch (const commit_unknown& e) {
        lose(e.why);
      } catch (const sql_error& e) {
        log_error("reopen", e);
        give_up(e);
      }
      if (steady_ns() >= deadline_ns) return false;
      sleep_ms(100);
    }
  }

  /// Decides a batch whose COMMIT failed: all of it stands or nothing.
  void settle(const std::vector<room_share>& shares, std::vector<share_result>& out) {
    const auto set_all = [&](outcome what, const failure& why) {
      const auto made_here = [&](const change_result& duplicate) {
        for (const auto& share : out)
          for (const auto& r : share.results)
            if (r.what == outcome::committed && r.room != room_key{} && r.room == duplicate.room)
              return true;
        return false;
      };
      std::vector<change_result*> change;
      for (std::size_t i = 0; i < out.size(); ++i)
        for (auto& r : out[i].results) {
          // A duplicate of what stood before the batch stays true.
          const bool of_batch =
              r.what == outcome::duplicate &&
              (shares[i].room == room_key{} ? made_here(r) : r.seq > shares[i].expected_head);
          if (r.what == outcome::committed || of_batch || what == outcome::unknown)
            change.push_back(&r);
        }
      for (auto* r : change) {
        *r = {};
        r->what = what;
        r->why = why;
      }
    };
    failure why = fail(errc::unavailable, "storage failed while committing");
    why.retry_after_ms = 1000;
    const auto deadline = steady_ns() + o_.unknown_ms * 1'000'000;
    while (secure(deadline)) {
      try {
        std::optional<bool> happened;
        for (std::size_t i = 0; i < shares.size() && !happened; ++i)
          happened = s_->rooms->happened(shares[i], out[i]);
        // Nothing that could be seen was written: then nothing depends on it either.
        if (!happened.value_or(false)) set_all(outcome::refused, why);
        log::warn("storage", "the outcome of a failed COMMIT is known",
                  {{"committed", happened.value_or(false) ? "true" : "false"}});
        return;
      } catch (const sql_error& e) {
        log_error("reading the heads", e);
        give_up(e);
      }
    }
    set_all(outcome::unknown, why);
  }

  // ---- keeping house

  /// Copies the WAL into the database as far as no reader still needs it; true where all of it was
  /// copied.
  bool checkpoint() {
    long long busy = 0, log = 0, done = 0;
    statement st(s_->c, "pragma wal_checkpoint(passive)", soci::into(busy), soci::into(log),
                 soci::into(done));
    st.first();
    m_.checkpoints.add();
    s_->copied = std::max<std::int64_t>(done, 0);
    s_->wal_pages = std::max<std::int64_t>(log, 0);
    if (s_->wal_pages - s_->copied >= wal_warn_pages)
      log::warn("storage", "a reader holds an old snapshot: the WAL cannot be cut",
                {{"pages", std::to_string(s_->wal_pages)}});
    return busy == 0 && log == done;
  }

  void checkpoint_quietly() {
    try {
      checkpoint();
    } catch (const sql_error& e) {
      log_error("checkpoint", e);
      give_up(e);
    }
  }

  static void sleep_ms(std::int64_t ms) {
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  }

  sqlite_writer_options o_;
  metrics& m_;
  std::unique_ptr<session> s_;
  bool healthy_ = true;
  std::int64_t commit_number_ = 0;
  std::int64_t last_commit_ns_ = 0, next_cleaning_ns_ = 0;
  long long expired_ = 0;
};

}  // namespace

std::unique_ptr<writer_store> make_sqlite_writer(sqlite_writer_options options, metrics& m) {
  return std::make_unique<sqlite_writer>(std::move(options), m);
}

}  // namespace parley::storage
