// What the files of net/admin give each other. server.cpp guards and joins; the others fill in
// their routes.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "net/http/services.hpp"
#include "schemas/metrics.hpp"

namespace parley::net::http {

void add_health_routes(services& s, router& to);  // net/http/health.cpp
void add_introspection_routes(services& s);       // admin/actors.cpp
void add_people_routes(services& s);              // admin/people.cpp

/// Prometheus' text format 0.0.4 of the whole catalogue, the process's own figures and the actors
/// by kind.
std::string metrics_text(const metrics& m, const std::vector<actor_view>& actors);

/// What the process itself costs, from /proc; what cannot be read is -1 and left out.
struct process_figures {
  double cpu_seconds = -1, start_time = -1;
  std::int64_t resident_bytes = -1, virtual_bytes = -1, open_fds = -1, max_fds = -1, threads = -1;
};
process_figures read_process_figures();
std::string process_text(const process_figures& p);

}  // namespace parley::net::http
