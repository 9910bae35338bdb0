// Do edits of a scenario keep what the user wrote, does the form show and change the text, and can every change be taken back?
#include "gui/editor/documents.hpp"
#include "gui/editor/fields_model.hpp"
#include "gui/editor/json_place.hpp"
#include "gui/editor/presets.hpp"
#include "gui/editor/scenario_document.hpp"

#include <QAbstractItemModelTester>
#include <QSignalSpy>
#include <QTemporaryDir>
#include <QtTest/QTest>
#include <QUndoStack>

using namespace orrery;

namespace {

const std::string text = R"({
  "name": "small", // kept
  "model": "gpt2-124m",
  "cluster": {"preset": "dgx-a100-80gb", "nodes": 1},
  "training": {"global_batch_size": 64, "micro_batch_size": 1,
               "sequence_length": 1024},
  "strategy": {"tensor_parallel": 2, "overlap": {"grad_reduce": true}}
})";

QModelIndex value_of(const FieldsModel& model, const char* pointer) { return model.indexOf(pointer, FieldsModel::ValueColumn); }

} // namespace

class EditorTest : public QObject {
    Q_OBJECT
  private Q_SLOTS:
    void valuesAreFound() {
        QCOMPARE(*value_at(text, "/strategy/tensor_parallel"), std::string("2"));
        QCOMPARE(*value_at(text, "/training/sequence_length"), std::string("1024"));
        QCOMPARE(*value_at("[1, {\"a\": [2, 3]}]", "/1/a/1"), std::string("3"));
        QVERIFY(!value_at(text, "/strategy/nothing"));
    }

    void aChangeTouchesNothingElse() {
        const std::string after = *with_value(text, "/strategy/tensor_parallel", "8");
        std::string expected = text;
        expected.replace(expected.find("_parallel\": 2") + 12, 1, "8");
        QCOMPARE(after, expected);
        QCOMPARE(*with_value(after, "/strategy/tensor_parallel", "2"), text);
    }

    void newMembersStandBehindTheOthers() {
        const std::string after = *with_value(text, "/strategy/zero_stage", "1");
        QVERIFY(after.find(R"("overlap": {"grad_reduce": true}, "zero_stage": 1})") != std::string::npos);
        const std::string top = *with_value(text, "/runtime/year", "2023");
        QVERIFY(top.find(",\n  \"runtime\": {\"year\": 2023}") != std::string::npos);
        QCOMPARE(*without_value(after, "/strategy/zero_stage"), text);
    }

    void aPresetsNameBecomesAnObject() {
        const std::string after = *with_value(text, "/model/layers", "6");
        QVERIFY(after.find(R"("model": {"preset": "gpt2-124m", "layers": 6})") != std::string::npos);
        QVERIFY(!with_value(text, "/training/sequence_length/x", "1"));
    }

    void firstMiddleAndOnlyMembersGo() {
        QCOMPARE(*without_value(R"({"a": 1, "b": 2, "c": 3})", "/a"), std::string(R"({"b": 2, "c": 3})"));
        QCOMPARE(*without_value(R"({"a": 1, "b": 2, "c": 3})", "/b"), std::string(R"({"a": 1, "c": 3})"));
        QCOMPARE(*without_value(R"({"a": 1, "b": 2, "c": 3})", "/c"), std::string(R"({"a": 1, "b": 2})"));
        QCOMPARE(*without_value(R"({"a": 1})", "/a"), std::string("{}"));
    }

    void brokenTextsAreNotEdited() {
        for (const char* broken : {"", "{", "{\"a\": }", "{\"a\": 1}}", "{\"a\" 1}", "\"open", "[1, 2", "{\"a\": 1 /* never ends"})
            QVERIFY2(!with_value(broken, "/a", "2"), broken);
        QVERIFY(json_places(std::string(100000, '[')).error_at.has_value());
    }

    void changesCanBeTakenBack() {
        ScenarioDocument document;
        document.load(text, {}, {});
        QVERIFY2(document.parsed().scenario.has_value(), to_text(document.parsed().problems).c_str());
        QVERIFY(document.setField("/strategy/tensor_parallel", "4", "tp"));
        QCOMPARE(document.parsed().scenario->strategy.tensor_parallel, 4);
        document.type(text + " ");
        document.type(text + "  ");
        QVERIFY(document.isModified());
        document.undoStack().undo(); // typing is one step
        QCOMPARE(document.parsed().scenario->strategy.tensor_parallel, 4);
        document.undoStack().undo();
        QCOMPARE(document.text(), text);
        QVERIFY(!document.isModified());
        document.undoStack().redo();
        QCOMPARE(document.parsed().scenario->strategy.tensor_parallel, 4);
    }

    void theFormIsAModel() {
        ScenarioDocument document;
        FieldsModel model;
        QAbstractItemModelTester tester(&model, QAbstractItemModelTester::FailureReportingMode::QtTest);
        document.load(text, {}, {});
        model.setDocument(&document);
        QCOMPARE(value_of(model, "/strategy/tensor_parallel").data().toString(), QString("2"));
        QCOMPARE(value_of(model, "/model").data().toString(), QString("gpt2-124m"));
        QCOMPARE(value_of(model, "/cluster").data().toString(), QString("dgx-a100-80gb"));
        QVERIFY(model.setData(value_of(model, "/cluster"), "dgx-h100"));
        QCOMPARE(*value_at(document.text(), "/cluster/preset"), std::string("\"dgx-h100\""));
        QVERIFY(model.setData(value_of(model, "/training/precision"), "bf16"));
        QCOMPARE(*value_at(document.text(), "/training/precision"), std::string("\"bf16\""));
        QVERIFY(model.reset(value_of(model, "/training/precision")));
        QVERIFY(!value_at(document.text(), "/training/precision"));
        QVERIFY(!model.setData(model.indexOf("/strategy", FieldsModel::FieldColumn), "x"));
        model.setDocument(nullptr);
        QCOMPARE(value_of(model, "/model").data().toString(), QString());
    }

    void defaultsSayWhereTheyAreFrom() {
        ScenarioDocument document;
        document.load(text, {}, {});
        FieldsModel model;
        model.setDocument(&document);
        const QModelIndex framework = value_of(model, "/strategy/framework");
        QCOMPARE(framework.data().toString(), QString("megatron"));
        QCOMPARE(framework.data(FieldsModel::GivenRole).toBool(), false);
        QVERIFY(!framework.siblingAtColumn(FieldsModel::NoteColumn).data().toString().isEmpty());
    }

    void whatIsLeftOutShowsItsUsualDefault() {
        ScenarioDocument document;
        document.load(text, {}, {});
        FieldsModel model;
        model.setDocument(&document);
        const QModelIndex optimizer = value_of(model, "/training/optimizer");
        QCOMPARE(optimizer.data().toString(), QString("adamw"));
        QCOMPARE(optimizer.data(FieldsModel::GivenRole).toBool(), false);
        QVERIFY(optimizer.data(Qt::ToolTipRole).toString().contains("Default: adamw"));
        QVERIFY(optimizer.data(Qt::ToolTipRole).toString().contains("Example: adam"));
        // A rule in words is no value; of a preset's field nobody knows it here, and what is not there has none.
        const QModelIndex group = value_of(model, "/strategy/microbatch_group_size");
        QCOMPARE(group.data().toString(), QString());
        QCOMPARE(group.siblingAtColumn(FieldsModel::NoteColumn).data().toString(), QString("default: pipeline_parallel"));
        QCOMPARE(value_of(model, "/model/norm_placement").data().toString(), QString());
        QCOMPARE(value_of(model, "/federated/clients").data().toString(), QString());
        // Who chooses the default wants it written.
        QVERIFY(model.setData(optimizer, "adamw"));
        QCOMPARE(*value_at(document.text(), "/training/optimizer"), std::string("\"adamw\""));
    }

    void aModelOfItsOwnShowsDefaults() {
        ScenarioDocument document;
        std::string own = text;
        own.replace(own.find("\"gpt2-124m\""), 11, R"({"layers": 2, "hidden_size": 256, "attention_heads": 4, "vocab_size": 1000})");
        document.load(own, {}, {});
        FieldsModel model;
        model.setDocument(&document);
        QCOMPARE(value_of(model, "/model/norm_placement").data().toString(), QString("before"));
        QCOMPARE(value_of(model, "/model/attention/score_cap").data().toString(), QString("0"));
        QCOMPARE(value_of(model, "/cluster/host/speed").data().toString(), QString()); // the preset's
    }

    void mistakesStandAtTheirField() {
        ScenarioDocument document;
        document.load(text, {}, {});
        FieldsModel model;
        model.setDocument(&document);
        QSignalSpy changed(&document, &ScenarioDocument::changed);
        QVERIFY(model.setData(value_of(model, "/strategy/tensor_parallel"), "8"));
        QCOMPARE(changed.size(), 1);
        QVERIFY(!document.parsed().scenario);
        QVERIFY(value_of(model, "/strategy/tensor_parallel").data(FieldsModel::ProblemRole).toString().contains("attention_heads"));
        QVERIFY(model.setData(value_of(model, "/strategy/tensor_parallel"), "2"));
        QVERIFY(!value_of(model, "/strategy/tensor_parallel").data(FieldsModel::ProblemRole).isValid());
    }

    void aDocumentIsWrittenWhole() {
        QTemporaryDir folder;
        ScenarioDocument document;
        document.load(text, {}, {});
        QVERIFY(document.setField("/name", "\"other\"", "name"));
        QCOMPARE(document.save(folder.filePath("a.json")), QString());
        QVERIFY(!document.isModified());
        QFile file(folder.filePath("a.json"));
        QVERIFY(file.open(QIODevice::ReadOnly));
        QCOMPARE(file.readAll().toStdString(), document.text());
        QVERIFY(!document.save(folder.filePath("no/such/folder/a.json")).isEmpty());
    }

    // Every preset makes a scenario that can be simulated, is one step to undo, and leaves the rest of the text alone.
    void presetsAreStrategies() {
        RunStore store;
        ViewState state;
        Documents documents(store, state);
        const std::string text =
            R"({"model": {"layers": 8, "hidden_size": 512, "attention_heads": 8, "vocab_size": 1024}, "cluster": {"preset": "dgx-a100-80gb", "nodes": 2},
  "training": {"global_batch_size": 64, "sequence_length": 512}, "strategy": {"framework": "megatron", "tensor_parallel": 3, "flash_attention": true}})";
        const RunId id = store.simulate(text, {}, "s");
        state.setCurrentRun(id);
        QVERIFY(documents.current());
        for (const Preset& preset : presets()) {
            ScenarioDocument& document = *documents.current();
            if (std::string(preset.id).starts_with("recompute")) QVERIFY(documents.applyPreset("tensor"));
            const std::string before = document.text();
            QVERIFY2(documents.applyPreset(preset.id), preset.id);
            QVERIFY2(document.parsed().scenario.has_value(), (preset.id + to_text(document.parsed().problems) + document.text()).c_str());
            QVERIFY2(document.parsed().scenario->strategy.flash_attention, preset.id); // what it does not speak of stays
            const auto data = simulate_run(document.text(), {}, [](const QString&) { return true; });
            QVERIFY2(data->report && data->report->step_time_s > 0, preset.id);
            document.undoStack().undo();
            QCOMPARE(document.text(), before);
            while (document.undoStack().canUndo()) document.undoStack().undo();
            QCOMPARE(document.text(), text);
        }
        QVERIFY(!documents.applyPreset("no such"));
    }
};

QTEST_MAIN(EditorTest)
#include "editor_test.moc"
