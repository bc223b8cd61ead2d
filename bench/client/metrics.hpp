// Reads a Prometheus text page and subtracts two of them. Called by the scenarios before and after
// a measurement. A name that is missing is "not told" (nullopt), never zero.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace parley::bench {

class Metrics {
 public:
  Metrics() = default;
  explicit Metrics(std::string_view page);

  bool empty() const { return samples_.empty(); }
  /// Sum over all label sets of `name`; nullopt when there is no such sample. With `label`
  /// (`key="value"`), only over the sets that hold it.
  std::optional<double> sum(const std::string& name, const std::string& label = {}) const;
  /// Largest value over all label sets.
  std::optional<double> max(const std::string& name) const;
  /// All samples whose name holds every one of `parts`, as `name{labels}`.
  std::map<std::string, double> matching(const std::vector<std::string>& parts) const;

  struct Histogram {
    std::string labels;  // without le
    double count = 0;
    double total = 0;
    std::vector<std::pair<double, double>> buckets;  // upper bound, cumulative count
    double mean() const { return count > 0 ? total / count : 0; }
    /// Linear inside the bucket, as Prometheus' histogram_quantile.
    double quantile(double q) const;
  };
  /// Histograms of that name (without _bucket), one per label set, as the difference to `before`.
  std::vector<Histogram> histograms(const std::string& name, const Metrics& before) const;
  /// Names of all histograms.
  std::vector<std::string> histogram_names() const;

 private:
  struct Sample {
    std::string labels;
    double value = 0;
  };
  std::map<std::string, std::vector<Sample>> samples_;
};

/// after - before, nullopt when either is not told. A name absent before and present after counts
/// from 0 (a counter that is made when first used).
std::optional<double> difference(const Metrics& before, const Metrics& after,
                                 const std::string& name, const std::string& label = {});

}  // namespace parley::bench
