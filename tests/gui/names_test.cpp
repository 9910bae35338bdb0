// Has everything that sim names a look and words of its own here, and every field of a scenario its row in the form?
#include "gui/core/categories.hpp"
#include "gui/core/figures.hpp"
#include "gui/core/kinds.hpp"
#include "gui/core/memory_series.hpp"
#include "gui/editor/field_specs.hpp"
#include "gui/run/lost_time_model.hpp"
#include "sim/plan/plan.hpp"
#include "sim/scenario/schema.hpp"

#include <QLocale>
#include <QtTest/QTest>

#include <algorithm>
#include <set>
#include <string>
#include <tuple>

using namespace orrery;

namespace {

const FieldSpec* field_of(const FieldSpec& from, const std::string& pointer) {
    for (const FieldSpec& f : from.fields) {
        if (f.pointer == pointer) return &f;
        if (pointer.starts_with(f.pointer + "/")) return field_of(f, pointer);
    }
    return nullptr;
}

// Fields inside a value that the form shows as JSON: lists, and objects of several forms. A preset's name is the value of its section.
bool inside_a_value(const FieldSpec& root, std::string pointer) {
    if (pointer.ends_with("/preset")) {
        const FieldSpec* section = field_of(root, pointer.substr(0, pointer.rfind('/')));
        return section && section->type == FieldType::preset && !section->choices.empty();
    }
    for (std::size_t slash = pointer.rfind('/'); slash != std::string::npos && slash > 0; slash = pointer.rfind('/')) {
        pointer.resize(slash);
        if (const FieldSpec* above = field_of(root, pointer)) return above->type == FieldType::other;
    }
    return false;
}

std::string pointer_of(const FieldExample& e) {
    std::string out = "/" + std::string(e.field);
    std::replace(out.begin(), out.end(), '.', '/');
    return out;
}

TraceOp op(const std::string& kind, Phase phase) {
    TraceOp out;
    out.kind = kind;
    out.phase = name(phase);
    return out;
}

} // namespace

class NamesTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void everyKindOfSliceHasItsLook() {
        for (const bool dark : {false, true}) {
            std::set<QString> words;
            std::set<std::tuple<QRgb, Pattern>> looks;
            for (int k = 0; k < slice_kind_count; ++k) {
                const auto kind = static_cast<SliceKind>(k);
                words.insert(label(kind));
                looks.insert({colour(kind, dark).rgb(), pattern(kind)});
            }
            QCOMPARE(words.size(), std::size_t(slice_kind_count));
            QCOMPARE(looks.size(), std::size_t(slice_kind_count));
            QVERIFY(!words.contains(QString()));
        }
    }

    void everyCategoryHasItsLook() {
        QCOMPARE(std::set<Category>(drawing_order.begin(), drawing_order.end()).size(), std::size_t(category_count));
        for (const bool dark : {false, true}) {
            std::set<QString> words;
            std::set<std::tuple<QRgb, Qt::BrushStyle>> looks;
            for (Category c : drawing_order) {
                words.insert(title(c));
                looks.insert({colour(c, dark).rgb(), pattern(c)});
                QVERIFY2(colour(c, dark).isValid(), qPrintable(title(c)));
            }
            QCOMPARE(words.size(), std::size_t(category_count));
            QCOMPARE(looks.size(), std::size_t(category_count));
            QVERIFY(!words.contains(QString()));
        }
    }

    void everyKindOfMemoryHasItsLook() {
        std::set<QString> words;
        std::set<std::tuple<QRgb, Pattern>> looks;
        for (std::size_t k = 0; k <= memory_kind_count; ++k) { // the reserve behind them
            words.insert(memory_kind_text(k));
            looks.insert({memory_colour(k, false).rgb(), memory_pattern(k)});
        }
        QCOMPARE(words.size(), std::size_t(memory_kind_count) + 1);
        QCOMPARE(looks.size(), std::size_t(memory_kind_count) + 1);
    }

    void everyCauseOfAWaitHasWords() {
        std::set<QString> words;
        for (int c = 0; c <= static_cast<int>(WaitCause::dependency); ++c) words.insert(cause_text(static_cast<WaitCause>(c)));
        QCOMPARE(words.size(), static_cast<std::size_t>(WaitCause::dependency) + 1);
        QVERIFY(!words.contains(QString()));
    }

    // simrun's words where nothing is translated: the two tables of a run can be read beside each other.
    void lostTimesAreCalledAsSimrunDoes() {
        std::set<QRgb> inks{share_colour(-1, false).rgb()};
        for (std::size_t t = 0; t < lost_times; ++t) {
            QCOMPARE(lost_time_words(static_cast<LostTime>(t)), QString::fromUtf8(in_words(static_cast<LostTime>(t))));
            inks.insert(share_colour(static_cast<int>(t), false).rgb());
        }
        QCOMPARE(inks.size(), lost_times + 1);
    }

    void numbersAreOfTheLocale() {
        const QLocale before;
        QLocale::setDefault(QLocale(QLocale::German, QLocale::Germany));
        const QString days = days_words(2.5 * 86400), rate = rate_words(5e10), fast = rate_words(1.8e12);
        QLocale::setDefault(before);
        QCOMPARE(days, QString("2,5 days"));
        QCOMPARE(rate, QString("50,0 GB/s"));
        QCOMPARE(fast, QString("1,80 TB/s"));
    }

    void opsAreOfTheirKind() {
        for (int k = 0; k <= static_cast<int>(CollectiveKind::shift_back); ++k)
            QCOMPARE(kind_of_op(op(name(static_cast<CollectiveKind>(k)), Phase::gradient_reduce)), SliceKind::collective);
        QCOMPARE(kind_of_op(op(kind_name(Exchange{}), Phase::exchange)), SliceKind::point_to_point);
        QCOMPARE(kind_of_op(op(kind_name(Copy{}), Phase::offload)), SliceKind::copy);
        QCOMPARE(kind_of_op(op(kind_name(OptimizerStep{}), Phase::offload)), SliceKind::optimizer); // on the host
        const std::pair<Phase, SliceKind> computing[] = {{Phase::forward, SliceKind::forward},
                                                         {Phase::recompute, SliceKind::recompute},
                                                         {Phase::backward_input, SliceKind::backward_input},
                                                         {Phase::backward_weight, SliceKind::backward_weight},
                                                         {Phase::optimizer, SliceKind::optimizer},
                                                         {Phase::gradient_reduce, SliceKind::other}};
        for (const auto& [phase, kind] : computing) QCOMPARE(kind_of_op(op("linear", phase)), kind);
    }

    void everyFieldHasARow() {
        const FieldSpec root = scenario_spec();
        int shown = 0;
        for (const FieldExample& e : field_examples()) {
            const std::string pointer = pointer_of(e);
            const FieldSpec* field = field_of(root, pointer);
            QVERIFY2(field || inside_a_value(root, pointer), e.field);
            if (!field) continue;
            ++shown;
            QVERIFY2(!field->help.empty() || field->type == FieldType::section, e.field);
            QCOMPARE(field->example, std::string(e.example));
            QCOMPARE(field->usual, std::string(e.usual));
            if (field->type == FieldType::choice)
                QVERIFY2(std::find(field->choices.begin(), field->choices.end(), field->example) != field->choices.end(), e.field);
        }
        QVERIFY2(shown > 300, qPrintable(QString::number(shown)));
    }

    void newFieldsHaveTheirChoices() {
        const FieldSpec root = scenario_spec();
        const auto chooses = [&](const char* pointer, const char* value) {
            const FieldSpec* field = field_of(root, pointer);
            return field && std::find(field->choices.begin(), field->choices.end(), value) != field->choices.end();
        };
        QVERIFY(chooses("/training/optimizer", "muon"));
        QVERIFY(chooses("/training/muon_matrices", "duplicated"));
        QVERIFY(chooses("/model/norm_placement", "after"));
        QVERIFY(chooses("/runtime/attention_kernel", "flex"));
        QVERIFY(chooses("/strategy/schedule", "zb-h1"));
        for (const char* number : {"/model/logit_cap", "/model/attention/score_cap", "/cluster/host/speed"})
            QVERIFY2(field_of(root, number) && field_of(root, number)->type == FieldType::number, number);
    }
};

QTEST_GUILESS_MAIN(NamesTest)
#include "names_test.moc"
